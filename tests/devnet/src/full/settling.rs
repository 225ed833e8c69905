//! What carries x402 payments out on a full chain where the token alone does not: the proxy in front of
//! Permit2, and Prism, which begins with no facilitator on its list and without a fee.

use alloy_sol_types::SolValue;

use super::addresses::Contracts;
use super::builder::Builder;
use crate::error::DevnetError;
use crate::own;

impl Builder<'_> {
    pub(super) async fn place_settling(&self) -> Result<(), DevnetError> {
        let Contracts { permit2, exact_permit2_proxy, prism, .. } = self.contracts;
        let proxy = own::EXACT_PERMIT2_PROXY.creation_code(&(permit2,).abi_encode_params())?;
        self.place(exact_permit2_proxy, proxy).await?;
        self.place(prism, own::PRISM.creation_code(&[])?).await
    }
}

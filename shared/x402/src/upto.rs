//! The EIP-712 digest of the scheme `upto`: a Permit2 transfer up to a maximum amount. Its witness names the payee and
//! the only facilitator that may execute it.

use alloy_primitives::B256;

use crate::typed_data;

mod permit2 {
    alloy_sol_types::sol! {
        #[derive(Debug, PartialEq, Eq)]
        struct TokenPermissions {
            address token;
            uint256 amount;
        }

        /// The terms that the transfer itself does not have. `facilitator` must send the transaction.
        #[derive(Debug, PartialEq, Eq)]
        struct Witness {
            address to;
            address facilitator;
            uint256 validAfter;
        }

        /// The Permit2 message of `upto`. `spender` is the proxy contract of the scheme; times are in Unix seconds.
        #[derive(Debug, PartialEq, Eq)]
        struct PermitWitnessTransferFrom {
            TokenPermissions permitted;
            address spender;
            uint256 nonce;
            uint256 deadline;
            Witness witness;
        }
    }
}

pub use permit2::{PermitWitnessTransferFrom, TokenPermissions, Witness};

impl PermitWitnessTransferFrom {
    /// Returns the digest that the payer signs, under the domain of Permit2.
    pub fn digest(&self, permit2_separator: B256) -> B256 {
        typed_data::digest(permit2_separator, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{b256, keccak256};
    use alloy_sol_types::SolStruct;

    #[test]
    fn the_type_is_the_one_that_the_proxy_publishes() {
        let witness = "Witness(address to,address facilitator,uint256 validAfter)";
        let whole = "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,\
                     uint256 nonce,uint256 deadline,Witness witness)\
                     TokenPermissions(address token,uint256 amount)";
        let whole = format!("{whole}{witness}");
        assert_eq!(Witness::eip712_encode_type(), witness);
        assert_eq!(PermitWitnessTransferFrom::eip712_encode_type(), whole);
        let published = b256!("0xd4171c445a74218b01d4fd8af34ff1106580ea1e36ff837e64484bfaa2253b75");
        assert_eq!(keccak256(witness), published);
        let published = b256!("0x51dff6974ad4388c499e7fcfe838d2bd767162553a144098ce20ea661d70c2ee");
        assert_eq!(keccak256(whole), published);
    }
}

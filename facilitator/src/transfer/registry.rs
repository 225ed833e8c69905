//! All payment methods of all schemes, by id.

use crate::exact::eip3009::Eip3009;
use crate::exact::permit2::Permit2;
use crate::exact::prism::Prism;
use crate::payment::MethodId;
use crate::transfer::method::Method;
use crate::upto::permit2::{BY_ACCOUNT, BY_CONTRACT};

/// The method with this id.
pub fn method(id: MethodId) -> &'static dyn Method {
    match id {
        MethodId::Eip3009 => &Eip3009,
        MethodId::Permit2 => &Permit2,
        MethodId::Prism => &Prism,
        MethodId::UptoPermit2 => &BY_ACCOUNT,
        MethodId::UptoPermit2ByContract => &BY_CONTRACT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_its_own_id() {
        let ids = [
            MethodId::Eip3009,
            MethodId::Permit2,
            MethodId::Prism,
            MethodId::UptoPermit2,
            MethodId::UptoPermit2ByContract,
        ];
        for id in ids {
            assert_eq!(method(id).id(), id);
        }
    }
}

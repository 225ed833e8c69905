//! All payment methods, by id and in the order in which they are tried.

use crate::exact::eip3009::Eip3009;
use crate::exact::method::Method;
use crate::exact::permit2::Permit2;
use crate::exact::prism::Prism;
use crate::payment::MethodId;

/// All methods, in the order in which they are tried.
pub static METHODS: [&dyn Method; 3] = [&Permit2, &Prism, &Eip3009];

/// The method with this id.
pub fn method(id: MethodId) -> &'static dyn Method {
    match id {
        MethodId::Eip3009 => &Eip3009,
        MethodId::Permit2 => &Permit2,
        MethodId::Prism => &Prism,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_is_in_the_registry_once() {
        for known in METHODS {
            assert_eq!(method(known.id()).id(), known.id());
        }
        let mut ids: Vec<_> = METHODS.iter().map(|known| known.id()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), METHODS.len());
    }
}

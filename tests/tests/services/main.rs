//! The facilitator and the proxy end to end, with merchants, official clients and real contracts.

#[cfg(test)]
mod examples;
#[cfg(test)]
mod facilitator;
#[cfg(test)]
mod merchants;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod proxy_clients;
#[cfg(test)]
mod x402_contracts;

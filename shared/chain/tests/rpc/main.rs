//! The JSON-RPC chain against scripted nodes on 127.0.0.1.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod node;
#[cfg(test)]
mod order;
#[cfg(test)]
mod secrecy;
#[cfg(test)]
mod submit;

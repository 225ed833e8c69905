//! The structure of the repository: layers, cycles, sizes, generated documents and recorded vectors.

#[cfg(test)]
mod arch;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod cycles;
#[cfg(test)]
mod editions;
#[cfg(test)]
mod ports;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod vectors;

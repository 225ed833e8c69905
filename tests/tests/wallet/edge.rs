//! The HTTP edge of the public services, as processes: floods, raw requests, and shutdown.

#[cfg(test)]
mod floods;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod stage;

//! The HTTP edge of the public services, as processes: floods, raw requests, and shutdown.

#[cfg(test)]
#[path = "edge/floods.rs"]
mod floods;
#[cfg(test)]
#[path = "edge/forms.rs"]
mod forms;
#[cfg(test)]
#[path = "edge/requests.rs"]
mod requests;
#[cfg(test)]
#[path = "edge/stage.rs"]
mod stage;

//! Crashes of the real process. Every answer given before kill -9 still holds after a restart: the same request gets
//! the same bytes, nothing is authorized twice, and the interrupted step can be repeated.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod load;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod pauses;
#[cfg(test)]
mod points;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod steps;

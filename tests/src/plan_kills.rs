//! kill -9 at every point of a plan: one request is repeated until its plan has ended, while its engine
//! process is killed again and again.

use std::collections::BTreeSet;
use std::time::Duration;

use bursar_control::answers::Answer;
use bursar_core::status::EntryKind;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use crate::caller::{AgentClient, json_or_null};
use crate::dice::Dice;
use crate::operator::Operator;
use crate::process::{EngineProcess, StartOptions};

/// A kill at any moment, instead of a point of the code.
pub const ANY_MOMENT: &str = "any moment";

/// Number of requests that may miss a planned kill before another kill is planned.
const MISSED_REQUESTS_MAX: usize = 3;
/// Number of kills planned in a row without a death, after which the point counts as unreachable.
const PLANNED_KILLS_MAX: usize = 20;
/// Timeout of one request; reached only on failure.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The engine that is killed, and its operator.
#[derive(Debug)]
pub struct Scene<'a> {
    pub engine: &'a mut EngineProcess,
    pub operator: &'a mut Operator,
    /// The start options of the engine, including the password.
    pub start: StartOptions,
}

/// The lane whose plans are killed.
#[derive(Debug, Clone, Copy)]
pub struct KilledLane {
    /// Every point of a plan, and the points of outbox and journal that it passes.
    pub points: &'static [&'static str],
    /// The endpoint of its requests.
    pub path: &'static str,
    /// The kind of the journal entry that closes a plan.
    pub closing_entry: EntryKind,
}

/// The kills of one engine.
#[derive(Debug)]
pub struct Kills {
    lane: KilledLane,
    pub dice: Dice,
    count: usize,
    reached_points: BTreeSet<&'static str>,
    /// The point at which the running engine is killed, and the number of requests that missed it.
    armed_point: Option<(&'static str, usize)>,
    /// Number of kills planned since the last death.
    kills_since_death: usize,
}

impl Kills {
    pub fn new(lane: KilledLane, seed: u64) -> Self {
        let (dice, reached) = (Dice::new(seed), BTreeSet::new());
        Self {
            lane,
            dice,
            count: 0,
            reached_points: reached,
            armed_point: None,
            kills_since_death: 0,
        }
    }

    /// Returns the number of kills so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the point at which the running engine is killed.
    pub fn point(&self) -> &'static str {
        self.armed_point.map_or(ANY_MOMENT, |(point, _missed)| point)
    }

    /// Returns the points at which no kill has happened yet.
    pub fn points_not_reached(&self) -> Vec<&'static str> {
        self.lane
            .points
            .iter()
            .copied()
            .filter(|point| !self.reached_points.contains(point))
            .collect()
    }

    /// Plans another kill if none is planned, or if the planned one was missed too often.
    pub async fn plan(&mut self, scene: &mut Scene<'_>) {
        if self.armed_point.is_none_or(|(_point, missed)| missed >= MISSED_REQUESTS_MAX) {
            self.kills_since_death += 1;
            assert!(
                self.kills_since_death <= PLANNED_KILLS_MAX,
                "no request passes {:?}",
                self.armed_point
            );
            if !scene.engine.has_exited() {
                scene.engine.kill();
            }
            self.start(scene).await;
        }
    }

    /// Draws the next kill and starts an engine with it. Some engines die before they accept commands.
    async fn start(&mut self, scene: &mut Scene<'_>) {
        loop {
            let point = self.lane.points[self.count % self.lane.points.len()];
            let most = if point.starts_with("journal.") { 16 } else { 2 };
            let nth = 1 + self.dice.roll(most);
            self.armed_point = Some((point, 0));
            let fault = (point != ANY_MOMENT).then(|| format!("kill:{point}:{nth}"));
            let start = StartOptions { fault, ..scene.start.clone() };
            let folder = scene.engine.folder.clone();
            if let Some((engine, operator)) = EngineProcess::restart(&folder, &start).await {
                (*scene.engine, *scene.operator) = (engine, operator);
                return;
            }
            self.note_death();
        }
    }

    /// Notes a death and starts the next engine; returns whether the engine was dead.
    async fn revive(&mut self, scene: &mut Scene<'_>) -> bool {
        if !scene.engine.has_exited() {
            return false;
        }
        assert!(scene.engine.wait_killed(), "the engine ended, and no kill was the reason");
        self.note_death();
        self.start(scene).await;
        true
    }

    fn note_death(&mut self) {
        self.count += 1;
        self.kills_since_death = 0;
        self.reached_points.extend(self.armed_point.map(|(point, _missed)| point));
    }

    /// Repeats one request until it has ended and its plan is closed. Approves it if it is held.
    pub async fn finish(&mut self, scene: &mut Scene<'_>, body: &Value) -> Value {
        let end = Instant::now() + TIMEOUT;
        let mut moment = (self.point() == ANY_MOMENT)
            .then(|| Instant::now() + Duration::from_millis(self.dice.roll(2_500)));
        let answer = loop {
            assert!(Instant::now() < end, "{:?}: no end of {body}", self.armed_point);
            if self.revive(scene).await {
                continue;
            }
            let client = AgentClient::for_url(&scene.engine.url);
            let asking = client.post(self.lane.path, body);
            let answer = match moment {
                None => asking.await,
                Some(at) => tokio::select! {
                    answer = asking => answer,
                    () = sleep_until(at) => {
                        scene.engine.kill();
                        moment = None;
                        continue;
                    }
                },
            };
            let Ok((_status, bytes)) = answer else {
                sleep(Duration::from_millis(5)).await;
                continue;
            };
            let answer = json_or_null(&bytes);
            match answer["status"].as_str() {
                Some("pending") => approve(scene).await,
                Some("executed" | "rejected" | "failed") => {
                    if self.is_closed(scene, &answer).await {
                        break answer;
                    }
                }
                Some("executing") => {}
                // The node has not been read yet, or the wallet is just opening.
                _other => assert_eq!(answer["status"], "error", "{answer}"),
            }
            sleep(Duration::from_millis(20)).await;
        };
        self.armed_point = self.armed_point.map(|(point, missed)| (point, missed + 1));
        answer
    }

    /// Repeats a request that changes nothing until it is answered with 200.
    pub async fn read(&mut self, scene: &mut Scene<'_>, path: &str, body: &Value) -> Value {
        loop {
            // The planned kill of this engine may still happen.
            self.revive(scene).await;
            match AgentClient::for_url(&scene.engine.url).post(path, body).await {
                Ok((200, bytes)) => return json_or_null(&bytes),
                _dead_or_opening => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    async fn is_closed(&self, scene: &mut Scene<'_>, answer: &Value) -> bool {
        let id = answer["request_id"].as_str().expect("an id");
        let Ok(shown) = scene.operator.run("activity --raw").await else { return false };
        let Ok(Answer::Activity(activity)) = shown.reply.result else { return false };
        let mut own = activity.entries.iter().filter(|row| row.request.as_deref() == Some(id));
        own.any(|row| row.kind == self.lane.closing_entry)
    }
}

/// Approves the held request, if the engine lives long enough.
async fn approve(scene: &mut Scene<'_>) {
    let Ok(listed) = scene.operator.run("requests").await else { return };
    let Ok(Answer::Requests { requests }) = listed.reply.result else { return };
    let Some(held) = requests.into_iter().next() else { return };
    let Some(card) = held.card else { return };
    let (id, digest, usd) = (held.id, card.digest, card.usd);
    let line = format!("approve {id} --card {digest} --yes --confirm {usd}");
    // If the approval is refused, the answer to the request shows it.
    let _approved = scene.operator.run(&line).await;
}

/// Returns the points that occur in the source of the plans, without those of other lanes.
pub fn named_points(source: &str, others: &[&str]) -> BTreeSet<String> {
    let named = source.split('"');
    let named =
        named.filter(|text| text.starts_with("plan.") && !text.contains(char::is_whitespace));
    let own = named.filter(|text| !others.iter().any(|other| text.contains(other)));
    own.map(str::to_owned).collect()
}

/// Returns the entries of `points` that are points of a plan.
pub fn points_of_plan(points: &[&str]) -> BTreeSet<String> {
    let own = points.iter().filter(|point| point.starts_with("plan."));
    own.map(|point| (*point).to_owned()).collect()
}

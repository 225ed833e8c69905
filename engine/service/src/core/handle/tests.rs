use bursar_chain::clock::SystemClock;
use bursar_domain::apply::ChangedRecord;
use bursar_domain::{Command, Decision, Entry, Refusal, Reply, State};

use super::*;
use crate::edition::Edition;
use crate::journal::MemoryStore;
use crate::rules::{MutatedRules, Rules};

/// Rules that reject a freeze before a judgement, and refuse every other action after a judgement.
#[derive(Debug)]
struct RefusingRules;

impl MutatedRules for RefusingRules {
    fn decide(&self, _state: &State, command: &Command) -> Result<Decision, Refusal> {
        if matches!(command.action, Action::Freeze) {
            return Err(Code::NoPool.into());
        }
        let reply = Reply::Refused(Code::NoPool.into());
        Ok(Decision { events: Vec::new(), effects: Vec::new(), reply })
    }

    fn apply(&self, state: &mut State, entry: &Entry) -> Option<ChangedRecord> {
        bursar_domain::apply(state, entry)
    }
}

#[tokio::test]
async fn a_refusal_is_an_answer_only_if_it_was_judged_and_the_caller_wants_it() {
    let rules = Rules::with_mutated_rules(Arc::new(RefusingRules));
    let store = Box::new(MemoryStore::default());
    let core = Core::open(store, &Edition::full(), Arc::default(), rules).unwrap();
    let (core, running) = Handle::new(core, Arc::new(SystemClock::new().unwrap()));
    running.start().unwrap();
    let ActionAnswer::Refused(judged) = core.decide(Action::Tick).await.unwrap().answer else {
        panic!("no refusal")
    };
    assert_eq!(judged.code, Code::NoPool);
    for action in [Action::Tick, Action::Freeze] {
        assert_eq!(core.act(action).await.unwrap_err(), Fault::new(Code::NoPool));
    }
    assert_eq!(core.decide(Action::Freeze).await.unwrap_err(), Fault::new(Code::NoPool));
}

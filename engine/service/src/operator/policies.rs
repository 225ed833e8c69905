//! `policy …`.

use std::sync::Arc;

use bursar_core::answers::Answer;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::PolicyOrder;
use bursar_core::ids::Name;
use bursar_core::policy::Policy;
use bursar_domain::Action;
use bursar_domain::agents::PolicyRecord;

use super::{Done, act, describe};
use crate::engine::Shared;

pub(super) async fn run(engine: &Arc<Shared>, order: PolicyOrder) -> Result<Done, Fault> {
    match order {
        PolicyOrder::List => {
            let view = engine.core.view();
            let records = view.state.policies.values();
            let policies = records.map(|record| describe::policy(&view.state, record)).collect();
            Ok(Answer::Policies { policies }.into())
        }
        PolicyOrder::Show { name } => show(engine, &name),
        PolicyOrder::Create { name, options } => {
            let policy = Box::new(options.apply(&Policy::default()));
            act(engine, Action::CreatePolicy { name: name.clone(), policy }).await?;
            show(engine, &name)
        }
        PolicyOrder::Edit { name, options } => {
            let policy = Box::new(options.apply(&find(engine, &name)?.policy));
            act(engine, Action::EditPolicy { name: name.clone(), policy }).await?;
            show(engine, &name)
        }
        PolicyOrder::Delete { name } => {
            act(engine, Action::DeletePolicy { name: name.clone() }).await?;
            Ok(Answer::Deleted { name: name.as_str().to_owned() }.into())
        }
    }
}

fn show(engine: &Shared, name: &Name) -> Result<Done, Fault> {
    let record = find(engine, name)?;
    Ok(Answer::Policy(describe::policy(&engine.core.view().state, &record)).into())
}

fn find(engine: &Shared, name: &Name) -> Result<Arc<PolicyRecord>, Fault> {
    engine.core.view().state.policy(name).cloned().ok_or_else(|| {
        Fault::because(Code::NothingFound, format!("There is no policy {name}: see `policy list`."))
    })
}

//! Actions of the operator on policies, agents, networks and the freeze.

use super::*;

impl Run {
    pub(super) fn edit(&mut self, policy: usize, variant: usize) {
        let rules = VARIANTS[variant];
        let old = self.model.rules[policy];
        let name = build::name(&policy_name(policy));
        let action = Action::EditPolicy { name, policy: Box::new(rules.policy()) };
        let result = self.perform(action);
        if rules.loosens(&old) && !self.world.unlocked {
            return self.expect_refused("edited", result, &[Code::WalletLocked]);
        }
        let changed = !result.expect("nothing to refuse").events.is_empty();
        assert_eq!(changed, rules != old);
        if changed {
            self.model.edit_policy(policy, rules);
        }
    }

    pub(super) fn commission(&mut self, agent: usize, policy: usize, spare: bool) {
        let now = self.world.now();
        let action = build::commission(agent, &policy_name(policy), label(spare));
        let result = self.perform(action);
        if !self.world.unlocked {
            return self.expect_refused("commissioned", result, &[Code::WalletLocked]);
        }
        result.expect("nothing to refuse");
        self.model.commission(agent, policy, label(spare), &now);
    }

    pub(super) fn suspend(&mut self, agent: usize) {
        let id = self.model.agents[agent].id.clone();
        self.perform(Action::Suspend { agent: id }).expect("always possible");
        self.model.agents[agent].suspended = true;
    }

    pub(super) fn resume(&mut self, agent: usize) {
        let id = self.model.agents[agent].id.clone();
        let result = self.perform(Action::Resume { agent: id });
        if !self.world.unlocked {
            return self.expect_refused("resumed", result, &[Code::WalletLocked]);
        }
        result.expect("nothing to refuse");
        self.model.agents[agent].suspended = false;
    }

    pub(super) fn renew(&mut self, agent: usize) {
        let id = self.model.agents[agent].id.clone();
        let due = self.model.due(agent, &self.world.now());
        let result = self.perform(Action::Renew { agent: id });
        let reasons = [
            (!self.world.unlocked, Code::WalletLocked),
            (self.model.agents[agent].commission.is_none(), Code::AgentNotCommissioned),
            (due == Due::Nothing, Code::BadInput),
        ];
        let codes: Vec<_> =
            reasons.into_iter().filter_map(|(so, code)| so.then_some(code)).collect();
        if !codes.is_empty() {
            return self.expect_refused("renewed", result, &codes);
        }
        assert_eq!(result.expect("nothing to refuse").events.len(), 1);
        self.reached.insert("renewed by the operator".to_owned());
    }

    pub(super) fn freeze(&mut self) {
        self.perform(Action::Freeze).expect("always possible");
        self.model.frozen = true;
    }

    pub(super) fn thaw(&mut self) {
        let result = self.perform(Action::Thaw);
        if !self.world.unlocked {
            return self.expect_refused("thawed", result, &[Code::WalletLocked]);
        }
        result.expect("nothing to refuse");
        self.model.frozen = false;
    }

    pub(super) fn accept_journal(&mut self) {
        let result = self.perform(Action::AcceptJournal);
        if !self.world.unlocked {
            return self.expect_refused("accepted", result, &[Code::WalletLocked]);
        }
        result.expect("nothing to refuse");
        self.world.trusted = true;
        self.model.accept_journal();
    }

    pub(super) fn network(&mut self, enabled: bool) {
        let chain = build::base().chain;
        let result = self.perform(Action::SetNetwork { chain, enabled });
        if enabled && !self.world.unlocked {
            return self.expect_refused("enabled", result, &[Code::WalletLocked]);
        }
        result.expect("nothing to refuse");
        self.model.network_on = enabled;
    }
}

//! The commands `address ledger …`.

use std::collections::BTreeSet;
use std::sync::Arc;

use bursar_control::answers::{AddressAnswer, Answer, LedgerAddressAnswer, LedgerAddressesAnswer};
use bursar_control::grammar::{LayoutArgs, LedgerOrder};
use bursar_core::codes::Code;
use bursar_core::derivation::{DerivationPath, Layout, Template};
use bursar_core::fault::Fault;
use bursar_core::ids::Name;
use bursar_domain::Action;
use bursar_domain::event::AddressAdded;
use bursar_domain::wallets::Backing;

use super::dialogue::Dialogue;
use super::dry_run::{self, announce, is_dry_run};
use super::support::lookup::{find_address, wallet};
use super::support::{Done, act, describe, rehearse};
use crate::context::EngineContext;
use crate::device::{self, NotReady, ReadyDevice, ReadyDevices};

/// Maximum number of addresses that one command adds.
const ADDRESSES_ADDED_MAX: usize = 50;

pub(super) async fn run(
    engine: &Arc<EngineContext>,
    order: LedgerOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    // A locked wallet does not use a device either.
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    match order {
        LedgerOrder::List { layout, start, count } => list(engine, &layout, start, count).await,
        LedgerOrder::Add { indexes, label, layout } => {
            add(engine, &indexes.0, label.as_ref(), &layout).await
        }
        LedgerOrder::Verify { label } => verify(engine, &label, dialogue).await,
    }
}

async fn devices(engine: &EngineContext) -> Result<ReadyDevices, Fault> {
    let ports = &engine.ports;
    Ok(device::ready(ports.devices.as_ref(), &engine.device_turn, &ports.clock).await?)
}

/// Returns the only device that is ready.
fn only_device(devices: &ReadyDevices) -> Result<&ReadyDevice, Fault> {
    match devices.all.as_slice() {
        [only] => Ok(only),
        _several => Err(Fault::because(
            Code::Ambiguous,
            "Several Ledgers are connected: unplug all but the one with the addresses.",
        )),
    }
}

fn template(layout: &LayoutArgs) -> Result<Template, Fault> {
    layout.template().map_err(|why| Fault::because(Code::BadInput, why))
}

fn path(template: &Template, index: u32) -> Result<DerivationPath, Fault> {
    template.path(index).map_err(|error| Fault::because(Code::BadInput, error.to_string()))
}

async fn list(
    engine: &Arc<EngineContext>,
    layout: &LayoutArgs,
    start: u32,
    count: u32,
) -> Result<Done, Fault> {
    let (template, known) = (template(layout)?, wallet(engine)?);
    let end = start.checked_add(count).filter(|end| *end <= 1 << 31);
    let end =
        end.ok_or_else(|| Fault::because(Code::BadInput, "An index is at most 2147483647."))?;
    let devices = devices(engine).await?;
    let device = only_device(&devices)?;
    let mut addresses = Vec::new();
    for index in start..end {
        let path = path(&template, index)?;
        let address = device.address(&path).await?;
        let same = known.addresses.values().find(|known| known.address == address);
        addresses.push(LedgerAddressAnswer {
            index,
            path: path.to_string(),
            address: address.to_checksum(None),
            label: same.map(|known| known.label.as_str().to_owned()),
        });
    }
    device.check_answers().await?;
    Ok(Answer::LedgerAddresses(LedgerAddressesAnswer {
        device: device.name().to_owned(),
        layout: layout.layout.name().to_owned(),
        template: layout.path.clone(),
        addresses,
    })
    .into())
}

/// Adds all the addresses, or none if the rules refuse one of them.
async fn add(
    engine: &Arc<EngineContext>,
    indexes: &[u32],
    label: Option<&Name>,
    layout: &LayoutArgs,
) -> Result<Done, Fault> {
    let template = template(layout)?;
    let distinct: BTreeSet<u32> = indexes.iter().copied().collect();
    if distinct.len() != indexes.len() || indexes.len() > ADDRESSES_ADDED_MAX {
        let why = format!("Name each index once, and at most {ADDRESSES_ADDED_MAX} of them.");
        return Err(Fault::because(Code::BadInput, why));
    }
    let devices = devices(engine).await?;
    let device = only_device(&devices)?;
    let mut found = Vec::new();
    for index in indexes {
        let path = path(&template, *index)?;
        found.push(AddressAdded {
            label: label_of(label, *index, indexes.len())?,
            description: String::new(),
            index: *index,
            backing: Backing::Device { layout: layout.layout },
            path: path.to_string(),
            address: device.address(&path).await?,
        });
    }
    device.check_answers().await?;
    drop(devices);
    let _one_at_a_time = engine.wallet_changes.lock().await;
    for added in &found {
        rehearse(engine, Action::AddAddress(Box::new(added.clone())))?;
    }
    let mut labels = Vec::new();
    for added in found {
        let label = added.label.clone();
        let done = act(engine, Action::AddAddress(Box::new(added))).await;
        // A dry run lists all of them.
        if !is_dry_run() {
            done?;
        }
        labels.push(label);
    }
    if is_dry_run() {
        return dry_run::stop(Vec::new(), None);
    }
    if let [only] = labels.as_slice() {
        return show(engine, only);
    }
    let known = wallet(engine)?;
    let added = labels.iter().filter_map(|label| known.address(label));
    let addresses = added.map(|address| describe::address(address)).collect();
    Ok(Answer::Addresses { addresses }.into())
}

fn show(engine: &EngineContext, label: &Name) -> Result<Done, Fault> {
    let known = wallet(engine)?;
    Ok(Answer::Address(describe::address(find_address(&known, label)?)).into())
}

/// Returns the label of the address at `index`, when one command adds `of` addresses.
fn label_of(label: Option<&Name>, index: u32, of: usize) -> Result<Name, Fault> {
    let text = match label {
        Some(label) if of == 1 => return Ok(label.clone()),
        Some(label) => format!("{label}-{index}"),
        None => format!("ledger-{index}"),
    };
    text.parse().map_err(|_long| {
        Fault::because(
            Code::BadInput,
            format!("{text} is too long for a label: choose a shorter one."),
        )
    })
}

/// Asks the person to compare an address on the device that derives it.
async fn verify(
    engine: &Arc<EngineContext>,
    label: &Name,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let known = Arc::clone(find_address(&*wallet(engine)?, label)?);
    let Backing::Device { layout } = known.backing else {
        let why = format!(
            "{} is an address of a seed: there is no device to compare it with.",
            known.label
        );
        return Err(Fault::because(Code::BadInput, why));
    };
    let path = DerivationPath::parse(&known.path)
        .map_err(|error| Fault::because(Code::InternalError, error.to_string()))?;
    announce(|| format!("shows the address of {} on the Ledger", known.label))?;
    let devices = devices(engine).await?;
    let found = devices.with_address(&path, known.address).await;
    let index = found.map_err(|why| match why {
        NotReady::OtherSeed => other_seed(&known.label, layout),
        other => other.into(),
    })?;
    let device = devices.all.get(index).ok_or_else(|| other_seed(&known.label, layout))?;
    let shown = known.address.to_checksum(None);
    dialogue
        .progress(&format!(
            "compare {shown} with the screen of the {}, and confirm it there",
            device.name()
        ))
        .await;
    // cancel-safe: the prompt stays on the device, and its late answer is dropped.
    let confirmed = tokio::select! {
        biased;
        confirmed = device.confirm_address(&path) => confirmed?,
        () = dialogue.cancelled() => {
            let why = format!("Cancelled: reject the address on the {} too.", device.name());
            return Err(Fault::because(Code::Cancelled, why));
        }
    };
    device.check_answers().await?;
    if confirmed == known.address {
        let shown = AddressAnswer { confirmed: true, ..describe::address(&known) };
        Ok(Answer::Address(shown).into())
    } else {
        Err(other_seed(&known.label, layout))
    }
}

fn other_seed(label: &Name, layout: Layout) -> Fault {
    let why = format!(
        "The Ledger derives another address at the path of {label} ({}): it has another seed.",
        layout.name()
    );
    Fault::because(Code::LedgerError, why)
}

use super::super::test_support::{apply, broker, kinds, running};
use super::*;

fn update(name: &str, level: i16, kind: UpgradeKind) -> FeatureUpdate {
    FeatureUpdate { name: name.to_owned(), level, kind: Some(kind) }
}

/// A cluster whose metadata is written at this level.
fn at(level: i16) -> Controller {
    let mut controller = Controller::default();
    apply(&mut controller, &[FeatureLevelRecord { name: METADATA_VERSION.into(), feature_level: level }.into()]);
    controller
}

fn ask(controller: &Controller, updates: &[FeatureUpdate]) -> Decision<Result<(), UpdateFeaturesError>> {
    controller.update_features(updates, false, &broker(&[]))
}

#[test]
fn a_level_rises_and_all_updates_happen_together() {
    let mut controller = at(22);
    let both = [
        update(ELIGIBLE_LEADER_REPLICAS_VERSION, 1, UpgradeKind::Upgrade),
        update(METADATA_VERSION, 33, UpgradeKind::Upgrade),
    ];
    let alone = ask(&controller, &both[..1]);
    assert!(alone.reply.is_err() && alone.records.is_empty(), "it needs a higher metadata.version");
    assert!(controller.update_features(&both, true, &broker(&[])).records.is_empty(), "only validated");
    let decision = ask(&controller, &both);
    assert_eq!(decision.reply, Ok(()));
    apply(&mut controller, &decision.records);
    let image = controller.image();
    assert_eq!((image.metadata_version().0, image.has_eligible_leader_replicas()), (33, true));
    let shared = image.configs(&ConfigResource::cluster_default());
    assert_eq!(shared.get(MIN_IN_SYNC).map(String::as_str), Some("1"));
    assert!(ask(&controller, &both).records.is_empty(), "levels that are there already write nothing");
}

#[test]
fn eligible_replicas_leave_one_minimum_and_forget_who_was_eligible_when_they_go() {
    let mut controller = at(33);
    let own = ConfigRecord {
        resource_type: ConfigResource::BROKER,
        resource_name: "1".into(),
        name: MIN_IN_SYNC.into(),
        value: Some("2".into()),
    };
    apply(&mut controller, &[own.into()]);
    let on = ask(&controller, &[update(ELIGIBLE_LEADER_REPLICAS_VERSION, 1, UpgradeKind::Upgrade)]);
    apply(&mut controller, &on.records);
    assert!(controller.image().configs(&ConfigResource::broker(1)).is_empty());
    assert_eq!(controller.image().configs(&ConfigResource::cluster_default()).len(), 1);
    let off = ask(&controller, &[update(ELIGIBLE_LEADER_REPLICAS_VERSION, 0, UpgradeKind::SafeDowngrade)]);
    assert_eq!(kinds(&off.records), [ClearElrRecord::default().into(), on.records[2].clone()].map(|r| r.api_key()));
    apply(&mut controller, &off.records);
    assert!(!controller.image().has_eligible_leader_replicas());
}

#[test]
fn metadata_version_falls_only_where_nothing_is_lost() {
    let controller = at(29);
    for (level, kind, is_done) in [
        (24, UpgradeKind::SafeDowngrade, true),
        (24, UpgradeKind::Upgrade, false),
        (23, UpgradeKind::UnsafeDowngrade, true),
        (22, UpgradeKind::SafeDowngrade, false),
        (22, UpgradeKind::UnsafeDowngrade, false),
        (6, UpgradeKind::UnsafeDowngrade, false),
        (0, UpgradeKind::UnsafeDowngrade, false),
        (29, UpgradeKind::Upgrade, true),
        (30, UpgradeKind::SafeDowngrade, false),
        (34, UpgradeKind::Upgrade, false),
        (i16::MAX, UpgradeKind::Upgrade, false),
        (-1, UpgradeKind::UnsafeDowngrade, false),
    ] {
        let decision = ask(&controller, &[update(METADATA_VERSION, level, kind)]);
        assert_eq!(decision.reply.is_ok(), is_done, "{level} {kind:?}: {:?}", decision.reply);
        assert!(is_done || decision.records.is_empty());
    }
}

#[test]
fn what_is_not_served_cannot_be_raised_and_can_be_put_to_rest() {
    let mut controller = running();
    for (name, level) in [("streams.version", 2), ("kraft.version", 1), ("nothing", 1), ("", 1)] {
        let decision = ask(&controller, &[update(name, level, UpgradeKind::Upgrade)]);
        assert!(decision.reply.is_err() && decision.records.is_empty(), "{name}");
    }
    let stays = ask(&controller, &[update("streams.version", 1, UpgradeKind::Upgrade)]);
    assert_eq!((stays.reply, stays.records), (Ok(()), vec![]), "what is so needs nobody's support");
    let decision = ask(&controller, &[update("streams.version", 0, UpgradeKind::SafeDowngrade)]);
    apply(&mut controller, &decision.records);
    assert!(!controller.image().features().contains_key("streams.version"));
    let nobody = FeatureUpdate { name: METADATA_VERSION.to_owned(), level: 33, kind: None };
    assert!(ask(&controller, &[nobody]).reply.is_err());
}

//! `policy who-can` and `policy what-can`: one capability, or one actor, and by which policies.

use super::super::failure::Failure;
use super::super::open::registry;
use super::super::screen::{Answer, table};
use super::args::{WhatCan, WhoCan};
use super::matrix::{at_fault, now, surfaces};
use super::set::{loaded, world};
use crate::policy::PolicySet;
use crate::workbench::{Cell, matrix, matrix_of};

/// Who could get something allowed of a capability.
pub(super) fn who(args: &WhoCan) -> Result<Answer, Failure> {
    let world = world(registry()?, &args.actors)?;
    let set = loaded(args.view.policies.as_deref(), &world.registry)?;
    let capability = world.capability(&args.capability).map_err(|it| Failure::could_not_run(it.what, it.help))?;
    let cells = matrix_of(&set, capability, &world, &surfaces(&args.view), now(&args.view)).map_err(at_fault)?;
    let none = format!("None of these people could get `{}` allowed.\n", capability.id);
    Ok(answer(&set, &cells, ("actor", |it| it.actor.clone()), &none))
}

/// What an actor could get allowed.
pub(super) fn what(args: &WhatCan) -> Result<Answer, Failure> {
    let world = world(registry()?, std::slice::from_ref(&args.actor))?;
    let set = loaded(args.view.policies.as_deref(), &world.registry)?;
    let cells = matrix(&set, &world, &surfaces(&args.view), now(&args.view)).map_err(at_fault)?;
    Ok(answer(&set, &cells, ("capability", |it| it.capability.to_string()), "This actor could get nothing allowed.\n"))
}

/// What is open, a line each. For machines everything.
fn answer(set: &PolicySet, cells: &[Cell], (heading, name): (&str, fn(&Cell) -> String), none: &str) -> Answer {
    let by = |it: &Cell| {
        let policies = it.policies(set).map(|(it, place)| format!("{} {} ({place})", it.effect, it.id));
        policies.collect::<Vec<_>>().join(", ")
    };
    let open = cells.iter().filter(|it| it.is_open());
    let rows: Vec<_> = open.map(|it| vec![it.surface.as_str().to_owned(), name(it), it.text(), by(it)]).collect();
    let text = if rows.is_empty() { none.to_owned() } else { table(&["surface", heading, "outcome", "by"], &rows) };
    let json: Vec<_> = cells.iter().map(|it| it.json(set)).collect();
    Answer::list(&json, text)
}

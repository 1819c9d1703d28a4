//! `policy matrix`: actors by capabilities, a table a surface.

use std::fmt::Write as _;

use super::super::failure::Failure;
use super::super::open::registry;
use super::super::screen::{Answer, STRONG, markdown, table};
use super::args::{Layout, Matrix, Outlooks};
use super::set::{loaded, world};
use crate::Surface;
use crate::clock::{Clock, Timestamp};
use crate::policy::PolicySet;
use crate::workbench::{Cell, World, matrix};

pub(super) fn run(args: &Matrix) -> Result<Answer, Failure> {
    let world = world(registry()?, &args.actors)?;
    let set = loaded(args.view.policies.as_deref(), &world.registry)?;
    let cells = matrix(&set, &world, &surfaces(&args.view), now(&args.view)).map_err(at_fault)?;
    let json: Vec<_> = cells.iter().map(|it| it.json(&set)).collect();
    let text = match args.layout {
        Layout::Table => tables(&cells, &world),
        Layout::Markdown => in_markdown(&cells, &world),
        Layout::Csv => csv(&cells, &set),
        Layout::Json => super::super::screen::pretty(&json) + "\n",
    };
    Ok(Answer::list(&json, text))
}

/// All but the test kit's, unless some are named.
pub(super) fn surfaces(view: &Outlooks) -> Vec<Surface> {
    let chosen =
        |it: &Surface| if view.surfaces.is_empty() { *it != Surface::Test } else { view.surfaces.contains(it) };
    Surface::ALL.into_iter().filter(chosen).collect()
}

pub(super) fn now(view: &Outlooks) -> Timestamp {
    view.now.unwrap_or_else(|| Clock::System.now())
}

pub(super) fn at_fault(what: String) -> Failure {
    Failure::could_not_run(what, "report it: a policy that loads can be rewritten")
}

/// A row a capability: its id, and a cell an actor.
fn rows(cells: &[Cell], world: &World) -> Vec<Vec<String>> {
    let row = |cells: &[Cell]| {
        let id = cells.first().map(|it| it.capability.to_string()).unwrap_or_default();
        std::iter::once(id).chain(cells.iter().map(Cell::text)).collect()
    };
    cells.chunks(world.cast.len().max(1)).map(row).collect()
}

fn headings(world: &World) -> Vec<&str> {
    std::iter::once("capability").chain(world.cast.keys().map(String::as_str)).collect()
}

fn by_surface(cells: &[Cell]) -> impl Iterator<Item = (&'static str, &[Cell])> {
    let chunks = cells.chunk_by(|one, two| one.surface == two.surface);
    chunks.filter_map(|it| Some((it.first()?.surface.as_str(), it)))
}

fn tables(cells: &[Cell], world: &World) -> String {
    let of_surface = |(surface, cells)| {
        format!("{STRONG}over {surface}{STRONG:#}\n{}", table(&headings(world), &rows(cells, world)))
    };
    by_surface(cells).map(of_surface).collect::<Vec<_>>().join("\n")
}

fn in_markdown(cells: &[Cell], world: &World) -> String {
    let of_surface =
        |(surface, cells)| format!("## Over {surface}\n\n{}\n", markdown(&headings(world), &rows(cells, world)));
    by_surface(cells).map(of_surface).collect()
}

/// RFC 4180, one line a cell.
fn csv(cells: &[Cell], set: &PolicySet) -> String {
    let field = |it: &str| {
        let quoted = it.contains(['"', ',', '\n', '\r']);
        if quoted { format!("\"{}\"", it.replace('"', "\"\"")) } else { it.to_owned() }
    };
    let mut text = "surface,capability,actor,outcome,types,policies\r\n".to_owned();
    for cell in cells {
        let policies: Vec<_> = cell.policies(set).map(|(it, _)| it.id.clone()).collect();
        let fields = [
            cell.surface.as_str(),
            &cell.capability,
            &cell.actor,
            cell.word(),
            &cell.types().join(" "),
            &policies.join(" "),
        ];
        let fields: Vec<_> = fields.into_iter().map(field).collect();
        let _ = write!(text, "{}\r\n", fields.join(",")); // into a String: cannot fail
    }
    text
}

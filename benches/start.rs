//! Before the first call: registering, building, and the demo from its start to its end.

use std::process::{Command, Stdio};

use countersign::bench::register;
use tokio::runtime::Runtime;

use crate::Failure;
use crate::shop::{capabilities, directory, engine};
use crate::table::{Table, each, median, now};

const COUNT: usize = 300;
const ROUNDS: usize = 9;

const POLICIES: &str = r#"
@id("support") permit (principal in Role::"support", action in Action::"orders.*", resource);
"#;

pub(crate) fn measure(runtime: &Runtime, table: &mut Table) -> Result<(), Failure> {
    let directory = directory()?;
    let (mut registering, mut building, mut demo) = (vec![], vec![], vec![]);
    for round in 0..ROUNDS {
        let began = now();
        let count = register(capabilities(COUNT))?;
        registering.push(each(began.elapsed(), 1) / 1e3);
        if count != COUNT {
            return Err("not all are registered".into());
        }
        let database = format!("{round}.db");
        let began = now();
        drop(runtime.block_on(engine(COUNT, POLICIES, directory.path(), &database))?);
        building.push(each(began.elapsed(), 1) / 1e3);
        let began = now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        let status = command.args(["demo", "--json"]).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        demo.push(began.elapsed().as_secs_f64());
        if !status.success() {
            return Err("the demo fails".into());
        }
    }
    table.limit("300 capabilities register", median(&registering), "ms", 100.0);
    table.note("the engine with them is built, on a new database", format!("{:.0} ms", median(&building)));
    table.limit("demo, its time-out of 0.3 s included", median(&demo), "s", 3.3);
    Ok(())
}

//! Parses a usage log line by line into typed events and counts the uses of each record.
//!
//! `parse owned FILE` holds every text in a `String` of its own, `parse borrowed FILE` points into the
//! line where it can. Neither looks for duplicates nor mends damaged lines: a line that does not parse is
//! passed over. Prints the number of events and of uses.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::ExitCode;

use serde::Deserialize;

const BUFFER: usize = 1 << 20;

fn agent() -> String {
    "agent".to_owned()
}

fn agent_borrowed() -> Cow<'static, str> {
    Cow::Borrowed("agent")
}

#[derive(Deserialize)]
#[allow(dead_code)] // the fields are read by the parser: that is the work that is measured
struct Record {
    kind: String,
    slug: String,
    file_bytes: Option<u64>,
    file_tokens_estimate: Option<u64>,
    injected_bytes: Option<u64>,
    injected_tokens_estimate: Option<u64>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Event {
    id: String,
    occurred_at: String,
    session_id: Option<String>,
    event: String,
    source: String,
    #[serde(default = "agent")]
    actor: String,
    tokenizer: Option<String>,
    records: Vec<Record>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct BorrowedRecord<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    slug: Cow<'a, str>,
    file_bytes: Option<u64>,
    file_tokens_estimate: Option<u64>,
    injected_bytes: Option<u64>,
    injected_tokens_estimate: Option<u64>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct BorrowedEvent<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    occurred_at: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow, default = "agent_borrowed")]
    actor: Cow<'a, str>,
    #[serde(borrow)]
    tokenizer: Option<Cow<'a, str>>,
    #[serde(borrow)]
    records: Vec<BorrowedRecord<'a>>,
}

/// Events met, and uses in all.
type Totals = (u64, u64);

fn each_line(file: File, mut take: impl FnMut(&[u8])) -> std::io::Result<()> {
    let mut reader = BufReader::with_capacity(BUFFER, file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        take(&line);
        line.clear();
    }
    Ok(())
}

fn owned(file: File) -> std::io::Result<Totals> {
    let mut events = 0;
    let mut uses: HashMap<(String, String), u64> = HashMap::new();
    each_line(file, |line| {
        let Ok(event) = serde_json::from_slice::<Event>(line) else {
            return;
        };
        events += 1;
        if event.event == "use" {
            for record in event.records {
                *uses.entry((record.kind, record.slug)).or_insert(0) += 1;
            }
        }
    })?;
    Ok((events, uses.values().sum()))
}

fn borrowed(file: File) -> std::io::Result<Totals> {
    let mut events = 0;
    // one map in another, so that a record that is known needs no new key
    let mut uses: HashMap<String, HashMap<String, u64>> = HashMap::new();
    each_line(file, |line| {
        let Ok(event) = serde_json::from_slice::<BorrowedEvent>(line) else {
            return;
        };
        events += 1;
        if event.event != "use" {
            return;
        }
        for record in &event.records {
            if !uses.contains_key(record.kind.as_ref()) {
                uses.insert(record.kind.to_string(), HashMap::new());
            }
            let slugs = uses.get_mut(record.kind.as_ref()).unwrap();
            match slugs.get_mut(record.slug.as_ref()) {
                Some(count) => *count += 1,
                None => {
                    slugs.insert(record.slug.to_string(), 1);
                }
            }
        }
    })?;
    Ok((events, uses.values().flat_map(HashMap::values).sum()))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, path] = arguments.as_slice() else {
        eprintln!("usage: parse owned|borrowed FILE");
        return ExitCode::from(2);
    };
    let counted = File::open(path).and_then(|file| match mode.as_str() {
        "owned" => owned(file),
        "borrowed" => borrowed(file),
        _ => Err(std::io::Error::other("the mode is owned or borrowed")),
    });
    match counted {
        Ok((events, uses)) => {
            println!("{{\"events\": {events}, \"uses\": {uses}}}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::FAILURE
        }
    }
}

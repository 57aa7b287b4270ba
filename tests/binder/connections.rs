//! Several questions on one connection, in the ways in which Binder was asked them.

use super::cases::{Outcome, outcome_of, read_json};
use super::harness::{Dname, Query, read_frame, rtype, write_frame};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// An answer as the captures of connections hold it: id, response code, records in the answer.
type Told = (u64, String, u64);

/// Way in which the questions of one capture are put.
struct Way {
    capture: &'static str,
    /// Id, name and type.
    questions: &'static [(u16, &'static str, u16)],
    bytewise: bool,
    half_close: bool,
}

const WAYS: [Way; 6] = [
    Way {
        capture: "three_questions_at_once",
        questions: &[(1, "authcache", rtype::A), (2, "unknown", rtype::A), (3, "h-host", rtype::A)],
        bytewise: false,
        half_close: false,
    },
    Way {
        capture: "same_id_twice",
        questions: &[(9, "h-host", rtype::A), (9, "authcache", rtype::A)],
        bytewise: false,
        half_close: false,
    },
    Way {
        capture: "half_closed_after_the_question",
        questions: &[(1, "authcache", rtype::A)],
        bytewise: false,
        half_close: true,
    },
    Way { capture: "one_byte_at_a_time", questions: &[(5, "h-host", rtype::A)], bytewise: true, half_close: false },
    Way { capture: "idle_connection", questions: &[(6, "h-host", rtype::A)], bytewise: false, half_close: false },
    Way { capture: "axfr", questions: &[(7, "", rtype::AXFR)], bytewise: false, half_close: false },
];

/// Asks in all ways and compares with what Binder said; the order of answers is free (RFC 7766 section 7).
pub fn check(server: SocketAddr, domain: &str) {
    let captures = read_json("binder-connections.json");
    for way in &WAYS {
        let messages = captures[way.capture]["messages"].as_array().expect("messages");
        let mut due: Vec<Told> = messages
            .iter()
            .map(|message| {
                let rcode = message["rcode"].as_str().expect("a code");
                // The one difference, which the table has for AXFR over UDP.
                let rcode = if way.capture == "axfr" { "REFUSED" } else { rcode };
                let number = |value: &serde_json::Value| value.as_u64().expect("a number");
                (number(&message["id"]), rcode.to_string(), number(&message["counts"]["answer"]))
            })
            .collect();
        let mut told = ask(server, domain, way);
        due.sort();
        told.sort();
        assert_eq!(told, due, "{}", way.capture);
    }
}

/// Puts the questions in one way and collects as many answers.
fn ask(server: SocketAddr, domain: &str, way: &Way) -> Vec<Told> {
    let mut stream = TcpStream::connect(server).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket option");
    stream.set_nodelay(true).expect("a socket option");
    let mut sent = Vec::new();
    for (id, name, kind) in way.questions {
        let name = Dname::parse(format!("{name}.{domain}.").trim_start_matches('.'));
        let message = Query::new(&name, *kind).encode(*id);
        sent.extend_from_slice(&(message.len() as u16).to_be_bytes());
        sent.extend_from_slice(&message);
    }
    if way.bytewise {
        sent.chunks(1).for_each(|byte| stream.write_all(byte).expect("a connection"));
    } else {
        stream.write_all(&sent).expect("a connection");
    }
    if way.half_close {
        stream.shutdown(Shutdown::Write).expect("a connection");
    }
    let told = way.questions.iter().map(|_| {
        let bytes = read_frame(&mut stream).expect("an answer");
        let Outcome::Reply(reply) = outcome_of(Some(&bytes)) else { unreachable!("there are octets") };
        (u64::from(u16::from_be_bytes([bytes[0], bytes[1]])), reply.rcode, reply.answer.len() as u64)
    });
    let told = told.collect();
    if way.half_close {
        assert_eq!(stream.read(&mut [0]).expect("the end"), 0, "nothing follows");
    } else {
        // The connection takes another question.
        let message = Query::new(&Dname::parse(&format!("h-host.{domain}.")), rtype::A).encode(77);
        write_frame(&mut stream, &message).expect("an open connection");
        assert_eq!(read_frame(&mut stream).expect("an answer")[..2], [0, 77]);
    }
    told
}

//! How the Kafka door behaves, seen from outside: encoded requests in, decoded responses out.
//!
//! - `rules`: one test for each rule of Kafka's behaviour, named by the rule.
//! - `oracle`: the same scripted requests as were sent to a real Kafka, and its recorded answers, compared field by
//!   field.
//! - `support`: a broker in memory and connections to it.

mod oracle;
mod rules;
mod support;

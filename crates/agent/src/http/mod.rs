//! A small HTTP server for control, metrics, MCP and the page, and the client of the control socket.
//!
//! Everything a peer can do is bounded: how many connections there are, how large a request is, how long its head,
//! its body and the whole conversation may take, and how long the peer may leave an answer unread. An idle connection costs only its descriptor.

mod client;
mod listen;
mod patient;
mod server;

pub(crate) use client::{Unanswered, request};
pub(crate) use listen::Listener;
pub(crate) use server::{Answer, Events, Handler, Request, serve};

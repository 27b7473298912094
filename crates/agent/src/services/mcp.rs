//! The Model Context Protocol: what a running process says of itself, for assistants, and a few guarded actions.
//!
//! Streamable HTTP with one JSON answer to each request, no sessions and no streams. Every request must carry the
//! token. What changes something exists only where the configuration allows it, and is never a restore or a deletion.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hyper::header::{AUTHORIZATION, ORIGIN};
use hyper::{Method, StatusCode};
use seawall_core::Failure;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::McpConfig;
use crate::control::Actions;
use crate::http::{Answer, Handler, Request};
use crate::services::token::{Token, is_equal};

/// Versions of the protocol that are spoken, the newest first.
const VERSIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];

/// How long an action may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers assistants.
pub(crate) struct Mcp {
    config: McpConfig,
    token: Token,
    actions: Arc<Actions>,
}

impl Mcp {
    /// Answers as `config` allows it.
    pub(crate) fn new(config: McpConfig, actions: Arc<Actions>) -> Self {
        let token = Token::new(config.token.clone(), config.token_file.clone());
        Self { config, token, actions }
    }
}

/// A request or a notification of JSON-RPC 2.0.
#[derive(Debug, Deserialize)]
struct Call {
    jsonrpc: String,
    /// None in a notification.
    id: Option<Value>,
    method: String,
    #[serde(default)]
    params: Value,
}

/// A tool that an assistant can use.
struct Tool {
    name: &'static str,
    description: &'static str,
    /// Whether it takes a database, and whether it must.
    database: Option<bool>,
    /// Whether it only looks.
    reads: bool,
}

const TOOLS: [Tool; 7] = [
    Tool { name: "seawall_info", description: "Version and uptime of the process.", database: None, reads: true },
    Tool {
        name: "seawall_list",
        description: "All databases with their files, vaults and states.",
        database: None,
        reads: true,
    },
    Tool {
        name: "seawall_status",
        description: "How far databases are protected: phase, last durable point, lag, last error with the next step.",
        database: Some(false),
        reads: true,
    },
    Tool {
        name: "seawall_timeline",
        description: "What of a database can be restored: ranges, points and holes. Lists its vault.",
        database: Some(true),
        reads: true,
    },
    Tool {
        name: "seawall_sync",
        description: "Ship what a database has committed, and wait until it is in the vault.",
        database: Some(true),
        reads: false,
    },
    Tool {
        name: "seawall_start",
        description: "Start the protection of a database that was stopped.",
        database: Some(true),
        reads: false,
    },
    Tool {
        name: "seawall_stop",
        description: "Stop the protection of a database after shipping what is committed.",
        database: Some(true),
        reads: false,
    },
];

#[async_trait]
impl Handler for Mcp {
    async fn answer(&self, request: Request) -> Answer {
        if !matches!(request.path.as_str(), "/" | "/mcp") {
            return Answer::status(StatusCode::NOT_FOUND);
        }
        // A page in somebody's browser must not reach it under a name that leads to this machine.
        if request.headers.contains_key(ORIGIN) {
            return Answer::status(StatusCode::FORBIDDEN);
        }
        let token = request.header(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let wanted = self.token.now().await;
        if !token.is_some_and(|token| is_equal(token, wanted.reveal())) {
            return Answer::status(StatusCode::UNAUTHORIZED);
        }
        if request.method != Method::POST {
            return Answer::status(StatusCode::METHOD_NOT_ALLOWED);
        }
        let call: Call = match serde_json::from_slice(&request.body) {
            Ok(call) => call,
            Err(error) if error.is_data() => return error_answer(Value::Null, -32600, "this is no request"),
            Err(_) => return error_answer(Value::Null, -32700, "this is no JSON"),
        };
        if call.jsonrpc != "2.0" {
            return error_answer(call.id.unwrap_or_default(), -32600, "this is no JSON-RPC 2.0");
        }
        let Some(id) = call.id else { return Answer::text(StatusCode::ACCEPTED, "") };
        match self.call(&call.method, &call.params).await {
            Ok(result) => Answer::json(StatusCode::OK, &json!({ "jsonrpc": "2.0", "id": id, "result": result })),
            Err((code, message)) => error_answer(id, code, message),
        }
    }
}

impl Mcp {
    async fn call(&self, method: &str, params: &Value) -> Result<Value, (i32, &'static str)> {
        match method {
            "initialize" => {
                let asked = params["protocolVersion"].as_str();
                let version = VERSIONS.into_iter().find(|version| Some(*version) == asked).unwrap_or(VERSIONS[0]);
                Ok(json!({
                    "protocolVersion": version,
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "seawall", "version": self.actions.version() },
                }))
            }
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({ "tools": self.tools().map(describe).collect::<Vec<_>>() })),
            "tools/call" => {
                let name = params["name"].as_str().unwrap_or_default();
                let tool = self.tools().find(|tool| tool.name == name).ok_or((-32602, "there is no such tool"))?;
                let database = match (&params["arguments"]["database"], tool.database) {
                    (Value::String(database), Some(_)) => Some(database.as_str()),
                    (Value::Null, None | Some(false)) => None,
                    (Value::Null, Some(true)) => return Err((-32602, "it needs a database")),
                    _ => return Err((-32602, "database takes the name or the file of one")),
                };
                Ok(outcome(self.use_tool(tool.name, database).await))
            }
            _ => Err((-32601, "there is no such method")),
        }
    }

    /// The tools that this process lets assistants use.
    fn tools(&self) -> impl Iterator<Item = &'static Tool> + use<'_> {
        TOOLS.iter().filter(|tool| tool.reads || self.config.actions)
    }

    async fn use_tool(&self, name: &str, database: Option<&str>) -> Result<Value, Failure> {
        let (actions, named) = (&self.actions, database.unwrap_or_default());
        Ok(match name {
            "seawall_info" => json!(actions.info()),
            "seawall_list" => json!({ "databases": actions.list().await }),
            "seawall_status" => json!({ "databases": actions.status(database).await? }),
            "seawall_timeline" => json!(actions.timeline(named).await?),
            "seawall_sync" => json!(actions.sync(named, true, Some(PATIENCE)).await?),
            "seawall_start" => json!(actions.start(named).await?),
            _ => json!(actions.stop(named, Some(PATIENCE)).await?),
        })
    }
}

fn describe(tool: &Tool) -> Value {
    let properties = match tool.database {
        Some(_) => json!({ "database": { "type": "string", "description": "Its name, or the path of its file" } }),
        None => json!({}),
    };
    let required: &[&str] = if tool.database == Some(true) { &["database"] } else { &[] };
    json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": { "type": "object", "properties": properties, "required": required },
        "annotations": { "readOnlyHint": tool.reads, "destructiveHint": false },
    })
}

/// What a tool gave, for eyes and for programs. A failure is an answer too.
fn outcome(result: Result<Value, Failure>) -> Value {
    let failed = result.is_err();
    let document = result.unwrap_or_else(|failure| json!({ "error": failure }));
    json!({
        "content": [{ "type": "text", "text": document.to_string() }],
        "structuredContent": document,
        "isError": failed,
    })
}

fn error_answer(id: Value, code: i32, message: &str) -> Answer {
    let error = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
    Answer::json(StatusCode::OK, &error)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hyper::header::{HeaderMap, HeaderValue};
    use seawall_core::Shutdown;

    use super::*;
    use crate::config::{Hidden, Registering};
    use crate::fleet::{Fleet, Origin};
    use crate::testing::{Stubs, database};

    const TOKEN: &str = "0123456789abcdef";

    async fn server(allowed: bool) -> Mcp {
        let fleet = Fleet::new(Arc::new(Stubs), Shutdown::new());
        fleet.add(database("work-1"), Origin::Configured).await.expect("added");
        let registering = Registering::plain(Path::new("/"), Duration::from_secs(5));
        let actions = Arc::new(Actions::new(fleet, registering, None, "1.2.3"));
        let address = "127.0.0.1:0".parse().expect("an address");
        Mcp::new(McpConfig { address, token: Hidden::new(TOKEN), token_file: None, actions: allowed }, actions)
    }

    fn request(body: &str) -> Request {
        Request {
            method: Method::POST,
            path: "/mcp".to_owned(),
            query: String::new(),
            body: body.to_owned().into(),
            headers: HeaderMap::from_iter([(
                AUTHORIZATION,
                HeaderValue::from_str(&format!("Bearer {TOKEN}")).expect("a header"),
            )]),
            peer: None,
        }
    }

    async fn ask(server: &Mcp, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
        let answer = server.answer(request(&body)).await;
        assert_eq!(answer.status, StatusCode::OK);
        let document: Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(document["id"], 7);
        document
    }

    #[tokio::test]
    async fn an_assistant_looks_around() {
        let server = server(false).await;
        let hello = ask(&server, "initialize", json!({ "protocolVersion": "2025-03-26" })).await;
        assert_eq!(hello["result"]["protocolVersion"], "2025-03-26");
        assert_eq!(hello["result"]["serverInfo"]["version"], "1.2.3");
        let hello = ask(&server, "initialize", json!({ "protocolVersion": "1999-01-01" })).await;
        assert_eq!(hello["result"]["protocolVersion"], VERSIONS[0]);
        let tools = ask(&server, "tools/list", Value::Null).await;
        let tools = tools["result"]["tools"].as_array().expect("tools").clone();
        assert_eq!(tools.len(), 4);
        assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true));
        let call = async |name: &str, arguments: Value| {
            ask(&server, "tools/call", json!({ "name": name, "arguments": arguments })).await
        };
        let status = call("seawall_status", json!({})).await;
        let structured = &status["result"]["structuredContent"];
        assert_eq!(structured["databases"][0]["name"], "work-1");
        let text: Value =
            serde_json::from_str(status["result"]["content"][0]["text"].as_str().expect("text")).expect("JSON");
        assert_eq!(&text, structured);
        let unknown = call("seawall_timeline", json!({ "database": "nobody" })).await;
        assert_eq!(unknown["result"]["isError"], true);
        assert_eq!(unknown["result"]["structuredContent"]["error"]["code"], "agent.unknown-database");
        for (name, arguments) in [
            ("seawall_timeline", json!({})),
            ("seawall_status", json!({ "database": 5 })),
            ("seawall_stop", json!({ "database": "work-1" })),
            ("rm -rf", json!({})),
        ] {
            assert_eq!(call(name, arguments).await["error"]["code"], -32602, "{name}");
        }
        assert_eq!(ask(&server, "resources/list", Value::Null).await["error"]["code"], -32601);
    }

    #[tokio::test]
    async fn actions_are_there_where_they_are_allowed() {
        let server = server(true).await;
        let call = async |name: &str| {
            let params = json!({ "name": name, "arguments": { "database": "work-1" } });
            ask(&server, "tools/call", params).await["result"]["structuredContent"]["status"].clone()
        };
        assert_eq!(call("seawall_sync").await, "no_change");
        assert_eq!(call("seawall_stop").await, "stopped");
        assert_eq!(call("seawall_start").await, "started");
    }

    #[tokio::test]
    async fn who_is_turned_away() {
        let server = server(true).await;
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let with = |change: fn(&mut Request)| {
            let mut request = request(ping);
            change(&mut request);
            request
        };
        let authorized = |text: &'static str| {
            let mut request = request(ping);
            request.headers.insert(AUTHORIZATION, HeaderValue::from_static(text));
            request
        };
        for (request, status) in [
            (with(|_| ()), StatusCode::OK),
            (with(|r| r.headers.clear()), StatusCode::UNAUTHORIZED),
            (authorized("Bearer 0123456789abcdeg"), StatusCode::UNAUTHORIZED),
            (authorized("Bearer 0123456789abcde"), StatusCode::UNAUTHORIZED),
            (authorized("0123456789abcdef"), StatusCode::UNAUTHORIZED),
            (
                with(|r| {
                    r.headers.insert(ORIGIN, HeaderValue::from_static("https://evil.example"));
                }),
                StatusCode::FORBIDDEN,
            ),
            (with(|r| r.method = Method::GET), StatusCode::METHOD_NOT_ALLOWED),
            (with(|r| r.path = "/metrics".into()), StatusCode::NOT_FOUND),
            (request(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), StatusCode::ACCEPTED),
        ] {
            let shown = format!("{request:?}");
            assert_eq!(server.answer(request).await.status, status, "{shown}");
        }
        for (body, code) in
            [("{", -32700), ("[]", -32600), ("{}", -32600), (r#"{"jsonrpc":"1","id":1,"method":"x"}"#, -32600)]
        {
            let answer = server.answer(request(body)).await;
            let document: Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert_eq!(document["error"]["code"], code, "{body}");
        }
    }
}

//! A real Chromium without a window, told what to do over a pipe by its own protocol (CDP). In: an address, keys, expressions; out:
//! what the page has become, what it asked for, and what the browser complained of.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{env, thread};

use serde_json::{Value, json};

use super::program::{target, wait_until};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Its pipe is at 3 and 4.
const START: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>>"$LOG""#;

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    asked: u64,
    events: Vec<Value>,
}

impl Browser {
    /// Starts it with an empty page; its log and its profile are in the folder.
    pub fn start(folder: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", START]).arg(binary()).env("LOG", folder.join("chromium.log"));
        // Everything is drawn by the processor, and pages are our own. Root has no other way than without the sandbox.
        command.args(["--headless", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]);
        command.args(["--no-first-run", "--disable-background-networking", "--disable-component-update"]);
        command.arg("--remote-debugging-pipe").arg(format!("--user-data-dir={}", folder.join("profile").display()));
        let child = command.arg("about:blank").env("HOME", folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("a shell can be started");
        let (to, output) = child.stdin.take().zip(child.stdout.take()).expect("pipes");
        let (told, from) = channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Some(message) = message.ok().and_then(|message| serde_json::from_slice(&message).ok()) else {
                    return;
                };
                if told.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self { child, to, from, session: None, asked: 0, events: Vec::new() };
        let page = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let to = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", &to);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Log", "Network", "Page", "Runtime"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Goes to an address, and waits until it is there.
    pub fn open(&mut self, address: &str) {
        self.call("Page.navigate", &json!({ "url": address }));
        self.wait_until(&format!("location.href === '{address}' && document.readyState === 'complete'"));
    }

    /// What an expression is in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// The same as text.
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.value(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression} is {value}, no text")).to_owned()
    }

    /// Waits until an expression is true.
    pub fn wait_until(&mut self, expression: &str) {
        wait_until(expression, || self.value(expression) == true);
    }

    /// Presses and lets go a key.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            _ => panic!("no code of {key} is known"),
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Writes where the focus is.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Has it be of a system with such colours.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Has it be so wide.
    pub fn resize(&mut self, width: u32) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// The addresses that were asked for.
    pub fn requests(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }

    /// What is said in the console, whoever says it, scripts that fail, and dialogs.
    pub fn complaints(&self) -> Vec<&Value> {
        let kinds =
            ["Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Page.javascriptDialogOpening"];
        self.events.iter().filter(|event| kinds.iter().any(|kind| event["method"] == *kind)).collect()
    }

    /// Asks for something of the protocol, and gives its answer.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("it reads what it is told");
        loop {
            let said = self.from.recv_timeout(PATIENCE);
            let said = said.unwrap_or_else(|_| panic!("{method} has no answer: chromium.log says more"));
            if said["id"] == self.asked {
                assert!(said["error"].is_null(), "{method}: {said}");
                return said["result"].clone();
            }
            self.events.push(said);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `$WARMPATH_CHROMIUM`, one in PATH, or the one that `cargo xtask chromium` fetched.
fn binary() -> PathBuf {
    if let Some(named) = env::var_os("WARMPATH_CHROMIUM") {
        return named.into();
    }
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let in_path = names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|at| at.is_file()));
    let fetched = target().join("tools/chromium/start");
    let found = in_path.or_else(|| fetched.is_file().then_some(fetched));
    found.expect("there is no Chromium: `cargo xtask test` fetches one, or set WARMPATH_CHROMIUM")
}

// Talks to the server: a token in a header, never in the address; events over a stream.

const KEY = "amforest-token";

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const hasToken = () => sessionStorage.getItem(KEY) !== null;
export const setToken = (token) => sessionStorage.setItem(KEY, token);

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

export async function request(path, body, options = {}) {
  const sent =
    body === undefined
      ? { headers: headers() }
      : {
          method: "POST",
          headers: headers({ "Content-Type": "application/json" }),
          body: JSON.stringify(body),
        };
  const answer = await fetch(path, { cache: "no-store", ...sent, ...options });
  if (answer.ok) return answer;
  let detail = `${answer.status} ${answer.statusText}`;
  try {
    detail = (await answer.json()).detail ?? detail;
  } catch {
    // not a problem in JSON
  }
  throw new Refused(answer.status, detail);
}

export const getJson = async (path, body) => (await request(path, body)).json();

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

// Calls `handle(name, value)` for each event, and connects again when the stream ends.
export async function follow(path, handle, onState) {
  for (let wait = 1; ; wait = Math.min(2 * wait, 15)) {
    try {
      const answer = await request(path);
      for await (const [name, value] of parse(answer.body)) {
        wait = 1;
        handle(name, value);
        onState("live", "live");
      }
      onState("lost", "the server has ended; connecting again");
    } catch (error) {
      if (error.status === 401 || error.status === 403) throw error;
      onState("lost", `${error.status ? error.message : "no connection"}; connecting again`);
    }
    await pause(wait);
  }
}

async function* parse(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [name, data] = event.split("\n");
      yield [name.slice("event: ".length), JSON.parse(data.slice("data: ".length))];
    }
  }
}

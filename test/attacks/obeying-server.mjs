// A stdio server that many clients share, and that uses ids as its callers request: an example of a server that reads more
// in a message than the gateway does (`"ID"` beside `id`, `"Params"` after `params`). `show` returns the id of the caller's own
// call, and how many wait; `abuse` answers, reports progress of and cancels whatever ids are named; `wait` is answered by `go`.
import { createInterface } from 'node:readline';

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const text = (value) => ({ resultType: 'complete', content: [{ type: 'text', text: value }] });
const waiting = new Map();

const tools = {
  show: ({ id, token }) => text(JSON.stringify({ id, token, open: waiting.size })),
  wait: ({ id, token }) => void waiting.set(id, token),
  abuse: ({ ids }) => {
    let hits = 0;
    for (const id of ids) {
      const message = `injected under ${id}`;
      send({ method: 'notifications/progress', params: { progressToken: id, progress: 1, message } });
      if (waiting.delete(id)) hits++;
      send({ id, result: text(message) });
    }
    return text(String(hits));
  },
  go: () => {
    const all = [...waiting];
    waiting.clear();
    for (const [id, token] of all) {
      send({ method: 'notifications/progress', params: { progressToken: token, progress: 1, message: 'its own' } });
      send({ id, result: text('its own') });
    }
    return text(String(all.length));
  },
};

const answers = {
  'server/discover': () => ({
    resultType: 'complete',
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: {} },
    ttlMs: 0,
    cacheScope: 'private',
  }),
  'tools/list': () => ({
    resultType: 'complete',
    tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object' } })),
    ttlMs: 60_000,
    cacheScope: 'public',
  }),
  'tools/call': ({ name, arguments: args, _meta }, id) => tools[name]({ ...args, id, token: _meta?.progressToken }),
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) return;
  const answer = answers[method];
  if (answer === undefined) send({ id, error: { code: -32601, message: 'Method not found' } });
  else {
    const result = answer(params ?? {}, id);
    if (result !== undefined) send({ id, result });
  }
});

// A stdio server of 2025-11-25 whose one tool asks for the roots of its client, without `params`, and returns the first.
import { createInterface } from 'node:readline';

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const answers = {
  initialize: () => ({
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'asking', version: '1' },
  }),
  ping: () => ({}),
  'tools/list': () => ({ tools: [{ name: 'roots', inputSchema: { type: 'object' } }] }),
};
let call = null;

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, result } = JSON.parse(line);
  if (method === 'tools/call') {
    call = id;
    send({ id: 'roots', method: 'roots/list' });
  } else if (id === 'roots')
    send({ id: call, result: { content: [{ type: 'text', text: result?.roots[0].uri ?? '' }] } });
  else if (answers[method] !== undefined) send({ id, result: answers[method]() });
  else if (id !== undefined) send({ id, error: { code: -32601, message: 'Method not found' } });
});

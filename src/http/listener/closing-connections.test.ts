import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { until } from '../../../test/support/http-client.ts';
import { listenerRig } from '../../../test/support/http-listener.ts';

/** Asks twice over one connection; between the two it reads nothing for a second, as a busy program does. */
const CLIENT = `
const { Agent, request } = require('node:http');
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const ask = () => new Promise((resolve) => {
  const sent = request(process.argv[1], { agent, method: 'POST', headers: { 'content-type': 'application/json' } });
  sent.on('error', (error) => resolve(String(error)));
  sent.on('response', (response) => {
    let text = '';
    response.on('data', (chunk) => (text += chunk));
    response.on('end', () => resolve(response.statusCode + ' ' + text));
  });
  sent.end('{}');
});
ask().then((first) => setTimeout(() => {
  console.log(first);
  const end = Date.now() + 1000;
  while (Date.now() < end);
  ask().then((second) => { console.log(second); process.exit(); });
}, 100));
`;

test('fault:F33 a request that arrives as its connection closes is answered: it was not read, and may be sent again', async (t) => {
  const { listener, port, reached } = await listenerRig(t);
  const client = spawn(process.execPath, ['-e', CLIENT, `http://127.0.0.1:${port}/mcp`]);
  t.after(() => client.kill());
  const lines = createInterface({ input: client.stdout })[Symbol.asyncIterator]();
  assert.equal((await lines.next()).value, '200 {"fine":true}');
  await listener.stopAccepting(100);
  const { value } = await lines.next();
  assert.match(value ?? '', /^408 .*"connection_closing".*send it again/);
  assert.equal(reached.length, 1);
});

test('the answer has the format of the listener’s routes, and announces that the connection closes', async (t) => {
  const { listener, port } = await listenerRig(t);
  listener.routes.add('/own', {}, { render: ({ code }) => `<${code}>` });
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  let text = '';
  let ended = false;
  socket.on('data', (bytes) => (text += bytes)).on('end', () => (ended = true));
  socket.write('GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await until(() => text.includes('"fine":true'));
  await listener.close();
  await until(() => ended);
  assert.match(text, /HTTP\/1\.1 408 Request Timeout\r\n[\s\S]*Connection: close\r\n\r\n<connection_closing>$/);
});

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { manySided } from '../../test/support/many-sided.ts';

const SRC = pathToFileURL(join(import.meta.dirname, '..')).href;

/** Runs a program with an embedded gateway and two servers: a local process, and one in the program itself. */
function program(t: TestContext, body: string) {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-edge-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const text = `
    import { createGateway, inProcessBytes } from '${SRC}/index.ts';
    const fail = (what) => { throw new Error(what); };
    const answer = (link, message) => {
      const { id, method, params } = JSON.parse(message.toString());
      const hello = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'own', version: '1' } };
      const tools = ['late', 'any'].map((name) => ({ name, inputSchema: { type: 'object' } }));
      if (params?.name === 'late') setTimeout(() => fail('thrown by the own server'), 5);
      const result = { initialize: hello, 'tools/list': { tools }, 'tools/call': { content: [] } }[method] ?? {};
      if (id !== undefined) link.deliver(JSON.stringify({ jsonrpc: '2.0', id, result }));
    };
    const own = inProcessBytes((link) => ({ receive: (message) => answer(link, message), close() {} }));
    const servers = { one: ${JSON.stringify(manySided('one'))}, own };
    const gateway = await createGateway({ servers, logger: (entry) => console.log(JSON.stringify(entry)) });
    await gateway.ready();
    ${body}`;
  return spawnSync(process.execPath, ['--input-type=module', '-e', text], { cwd: folder, encoding: 'utf8' });
}

const CALL = "await gateway.callTool('one__echo', { text: 'x' })";
const WAIT = 'await new Promise((done) => setTimeout(done, 20_000));';

for (const [what, body] of Object.entries({
  'of its own timer': `setTimeout(() => fail('thrown by the program'), 5); ${WAIT}`,
  'of its own promise': `${CALL}; void Promise.reject(new Error('thrown by the program')); ${WAIT}`,
  'of its listener': `gateway.on('serverChanged', () => fail('thrown by the program')); await gateway.unregisterServer('one'); ${WAIT}`,
  'of its logger, later': `
    let done = false;
    const sink = () => { if (!done) { done = true; setTimeout(() => fail('thrown by the program'), 5); } };
    const noisy = await createGateway({ servers: { one: servers.one }, logger: sink, logLevel: 'debug' }); ${WAIT}`,
  'of its own server, later': `await gateway.callTool('own__late', {}); ${WAIT}`,
})) {
  test(`fault:F42 an exception ${what} ends a program with a gateway inside as it would without the gateway`, (t) => {
    const { status, stderr } = program(t, body);
    assert.equal(status, 1, stderr);
    assert.match(stderr, /Error: thrown by the (?:program|own server)/);
  });
}

test('fault:F42 after a defect in the work for one server, the program, its handlers and other servers go on', (t) => {
  const { status, stdout, stderr } = program(
    t,
    `
    const { LineSplitter } = await import('${SRC}/upstream/process/line-splitter.ts');
    const good = LineSplitter.prototype.push;
    LineSplitter.prototype.push = () => { LineSplitter.prototype.push = good; return null.length; };
    const lost = await gateway.callTool('one__echo', { text: 'x' }, { timeoutMs: 3_000 }).catch((error) => error);
    console.log('outcome', lost.data.outcome, gateway.server('one').state);
    const refused = await ${CALL}.catch((error) => error);
    console.log('then', refused.data.outcome, refused.message);
    console.log('other', (await gateway.callTool('own__any', {})).content.length);
    await gateway.close();
    console.log('listeners', process.listenerCount('uncaughtException'));
    setTimeout(() => process.exit(7), 5_000).unref();`,
  );
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^outcome UNKNOWN defect$/m);
  assert.match(stdout, /^then NOT_SENT one is out of service until it is restarted: .*reading 'length'/m);
  assert.match(stdout, /^other 0$/m);
  assert.match(stdout, /^listeners 0$/m);
  assert.match(stdout, /"event":"server_defect".*"server":"one".*TypeError.* at /);
});

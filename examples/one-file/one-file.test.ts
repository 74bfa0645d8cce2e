import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';

const BIN = resolve(import.meta.dirname, '../../bin/trunkline.js');
const folder = mkdtempSync(join(tmpdir(), 'trunkline-example-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const options = {
  cwd: import.meta.dirname,
  env: { ...process.env, TMPDIR: folder, TRUNKLINE_DATA_DIR: join(folder, 'data') },
  timeout: 60_000,
};
const CALL = [BIN, 'call', 'files.read_text_file', 'path=../files/welcome.md'];

async function call(): Promise<string> {
  return (await promisify(execFile)(process.execPath, CALL, options)).stdout;
}

async function statusWhenReady(): Promise<string> {
  for (const until = Date.now() + 30_000; ; ) {
    try {
      return (await promisify(execFile)(process.execPath, [BIN, 'status'], options)).stdout;
    } catch (error) {
      if ((error as { code?: unknown }).code !== 4 || Date.now() > until) throw error;
    }
  }
}

test('the file is found and served; tools are called through the running gateway, and without one', async () => {
  assert.match(await call(), /Welcome/i);
  const gateway = spawn(process.execPath, [BIN, '--port', '0', '--control-port', '0'], { ...options, stdio: 'pipe' });
  const exited = new Promise<number | null>((done) => gateway.once('exit', done));
  try {
    await new Promise<void>((ready, fail) => {
      let text = '';
      gateway.once('exit', () => fail(new Error(`the gateway did not start: ${text}`)));
      gateway.stdout.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        if (/http:\/\/127\.0\.0\.1:\d+\/mcp/.test(text)) ready();
      });
      gateway.stderr.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
    });
    // the call waits for its server; `status` does not, and ends with 4 while a server starts
    assert.match(await call(), /Welcome/i);
    assert.match(
      await statusWhenReady(),
      /2 of 2 servers ready \(running at http:\/\/127\.0\.0\.1:\d+\/mcp, serving .*\.mcp\.json\)/,
    );
  } finally {
    gateway.kill('SIGTERM');
    assert.equal(await exited, 0);
  }
});

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { freePort } from '../support/free-port.ts';
import type { ProgramRun } from '../support/run-program.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const BLOCK_MS = 90_000;
const NPX_PROGRAM = execFileSync('which', ['npx'], { encoding: 'utf8' }).trim();

/**
 * `trunkline` as a reader has it. A gateway goes to the background here, so that the next line of the page can be run;
 * `import` and `link` do not ask.
 */
const TRUNKLINE = `#!/bin/bash
cli() { "$DOCS_NODE" "$DOCS_ROOT/bin/trunkline.js" "$@"; }
case "\${1-}" in
  import|link) cli "$@" --yes; exit ;;
  start) export TRUNKLINE_PORT=$DOCS_PORT TRUNKLINE_CONTROL_PORT=$DOCS_CONTROL_PORT; cli "$@"; exit ;;
  # 4: a server is not ready yet.
  status) cli "$@" || [ $? = 4 ]; exit ;;
  ''|--|*.json|*.yaml) ;;
  *) cli "$@"; exit ;;
esac
# No function: its process would be a shell, and outlive its signal.
"$DOCS_NODE" "$DOCS_ROOT/bin/trunkline.js" --json --port "$DOCS_PORT" --control-port "$DOCS_CONTROL_PORT" "$@" >"$HOME/started" 2>"$HOME/log" </dev/null &
echo $! >"$HOME/pid"
until [ -s "$HOME/started" ]; do
  kill -0 $! 2>/dev/null || { cat "$HOME/log" >&2; exit 1; }
  sleep 0.05
done
`;

const NPX = `#!/bin/bash
if [ "$1" = trunkline ]; then shift; exec trunkline "$@"; fi
exec ${NPX_PROGRAM} "$@"
`;

/** A machine on which the code of one page is run: an empty home, the servers of npm, free ports in place of the usual ones. */
export class PageShell implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'trunkline-docs-'));
  readonly home = join(this.folder, 'home');
  readonly port: number;
  readonly controlPort: number;
  readonly env: NodeJS.ProcessEnv;

  private constructor(port: number, controlPort: number) {
    this.port = port;
    this.controlPort = controlPort;
    this.write('bin/trunkline', TRUNKLINE, 0o755);
    this.write('bin/npx', NPX, 0o755);
    this.write('home/docs/read.me', 'hello\n');
    symlinkSync(join(ROOT, 'node_modules'), join(this.home, 'node_modules'));
    const { PATH, LANG } = process.env;
    this.env = {
      PATH: `${join(this.folder, 'bin')}:${dirname(process.execPath)}:${PATH}`,
      LANG,
      HOME: this.home,
      DOCS_NODE: process.execPath,
      DOCS_ROOT: ROOT,
      DOCS_PORT: `${port}`,
      DOCS_CONTROL_PORT: `${controlPort}`,
      npm_config_offline: 'true',
    };
  }

  static async open(): Promise<PageShell> {
    return new PageShell(await freePort(), await freePort());
  }

  /** `path`: relative to the folder of the shell. */
  write(path: string, text: string, mode = 0o644): string {
    const file = join(this.folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text, { mode });
    return file;
  }

  /** The text with the ports of this shell. */
  local(text: string): string {
    return text.replaceAll(/\b4270\b/g, `${this.port}`).replaceAll(/\b4271\b/g, `${this.controlPort}`);
  }

  /** Runs the lines up to the first that fails. */
  async run(script: string, more: NodeJS.ProcessEnv = {}, input = ''): Promise<ProgramRun> {
    const child = spawn('bash', ['--norc', '-euo', 'pipefail', '-c', this.local(script)], {
      cwd: this.home,
      env: { ...this.env, ...more },
      timeout: BLOCK_MS,
    });
    let [out, err] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      err += text;
    });
    child.stdin.end(input);
    const [code] = (await once(child, 'exit')) as [number | null];
    return { code, out, err };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const file = join(this.home, 'pid');
    if (existsSync(file)) await ended(Number(readFileSync(file, 'utf8')));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Ends a gateway that is no child of this process. */
async function ended(pid: number): Promise<void> {
  process.kill(pid, 'SIGTERM');
  for (let i = 0; i < 200; i++) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await new Promise((done) => setTimeout(done, 50));
  }
  process.kill(pid, 'SIGKILL');
}

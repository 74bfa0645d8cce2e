import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import headless from '@xterm/headless';

const BIN = resolve(import.meta.dirname, '../../bin/trunkline.js');

interface TerminalOptions {
  readonly cwd: string;
  readonly columns: number;
  readonly rows: number;
  readonly env?: Readonly<Record<string, string>>;
  /** A script of bash that runs the program's command line. */
  readonly script?: (command: string) => string;
}

/** `trunkline …` in a real pseudo-terminal (of util-linux `script`), and what a person sees of it. */
export class PersonTerminal {
  readonly #script: ChildProcess;
  readonly #screen: headless.Terminal;
  #device = '';
  /** Everything that was written, escape sequences included. */
  raw = '';
  readonly exited: Promise<unknown>;

  private constructor(script: ChildProcess, screen: headless.Terminal) {
    this.#script = script;
    this.#screen = screen;
    this.exited = once(script, 'close');
    script.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.raw += text;
      screen.write(text);
    });
  }

  static async open(args: readonly string[], options: TerminalOptions): Promise<PersonTerminal> {
    const { cwd, columns, rows, env = {}, script: around = (line) => `exec ${line}` } = options;
    const note = resolve(cwd, `terminal-${process.pid}-${Math.round(performance.now() * 1000)}`);
    const words = [process.execPath, BIN, ...args].map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
    const command = `stty cols ${columns} rows ${rows}; tty > ${note}; ${around(words)}`;
    const { NO_COLOR: _, FORCE_COLOR: __, ...inherited } = process.env;
    const script = spawn('script', ['-qefc', command, '/dev/null'], {
      cwd,
      env: { ...inherited, SHELL: '/bin/bash', TERM: 'xterm-256color', ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const screen = new headless.Terminal({ cols: columns, rows, scrollback: 1000, allowProposedApi: true });
    const found = new PersonTerminal(script, screen);
    while (found.#device === '') {
      await new Promise((done) => setTimeout(done, 10));
      found.#device = existsSync(note) ? readFileSync(note, 'utf8').trim() : '';
    }
    rmSync(note);
    return found;
  }

  /** The lines that are in the window and, with `all`, those that were scrolled out of it; without empty ones at the end. */
  async lines(all = false): Promise<string[]> {
    await new Promise<void>((done) => this.#screen.write('', done));
    const { active } = this.#screen.buffer;
    const first = all ? 0 : active.baseY;
    const lines = Array.from({ length: active.length - first }, (_, i) =>
      (active.getLine(first + i)?.translateToString(true) ?? '').trimEnd(),
    );
    while (lines.at(-1) === '') lines.pop();
    return lines;
  }

  /** Waits until what is seen matches; fails with what is seen. */
  async sees(pattern: RegExp, all = false, waitMs = 20_000): Promise<string> {
    const end = performance.now() + waitMs;
    for (;;) {
      const text = (await this.lines(all)).join('\n');
      if (pattern.test(text)) return text;
      if (performance.now() > end) throw new Error(`${pattern} was not seen:\n${text}`);
      await new Promise((done) => setTimeout(done, 20));
    }
  }

  type(text: string): void {
    this.#script.stdin!.write(text);
  }

  /** What another program writes to the same terminal. */
  otherWrites(text: string): void {
    writeFileSync(this.#device, text);
  }

  resize(columns: number, rows: number): void {
    // Output that is written in between is processed after both changes.
    execFileSync('stty', ['-F', this.#device, 'cols', `${columns}`, 'rows', `${rows}`]);
    this.#screen.resize(columns, rows);
  }

  async end(): Promise<void> {
    this.type('\x03');
    await this.exited;
  }
}

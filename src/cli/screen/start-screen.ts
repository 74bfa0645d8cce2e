import type { App } from '../../app/app.ts';
import { formatPretty, type LogEntry } from '../../app/process-logger.ts';
import { counted } from '../../model/counted.ts';
import { isSettled, type ServerStatus } from '../../model/server-state.ts';
import { needsAttention, serverLine, serversText } from '../server-line.ts';
import { inForeground } from './foreground.ts';
import { LiveRows } from './live-rows.ts';
import { noteText, type StartFacts, startHeader } from './start-header.ts';

/** Interval of looking at the servers while one is starting, and afterwards. */
const STARTING_MS = 100;
const LATER_MS = 1_000;
/** Lines of the header that stay on the screen above many servers. */
const HEADER_LINES = 9;
const LEAST_ROWS = 4;
const MAX_PRINTED_TEXTS = 6;

interface ScreenOptions {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** The log is not on this screen, which shows its important entries instead. */
  readonly quiet: boolean;
}

/**
 * The screen of a gateway in the foreground. On a terminal one row per server, updated in place; elsewhere, and on terminals
 * that cannot move the cursor, a line per server when it comes up or fails.
 */
export class StartScreen {
  readonly #options: ScreenOptions;
  readonly #live: LiveRows | null;
  #program = 'trunkline';
  #app: App | null = null;
  /** State and reason of each server as last printed. */
  readonly #printedStates = new Map<string, string>();
  /** The header and the last printed texts, to restore a cleared window. */
  readonly #printedTexts: string[] = [];
  #summaryPrinted = false;
  /** A changed file was refused; the configuration before it is in force. */
  #refused = false;
  readonly #unshownCounts = { error: 0, warn: 0 };

  constructor(options: ScreenOptions, env: NodeJS.ProcessEnv) {
    this.#options = options;
    const { isTTY, columns = 0, rows = 0 } = process.stdout;
    const moves = isTTY === true && columns > 0 && rows > 0 && env['TERM'] !== 'dumb' && inForeground();
    this.#live = moves ? new LiveRows(process.stdout, () => this.#printedTexts.join('')) : null;
  }

  /** Prints the header and starts to show the servers. */
  begin(app: App, facts: StartFacts): void {
    const header = startHeader(facts);
    this.#printedTexts.unshift(header);
    this.#options.out(header);
    this.#app = app;
    this.#program = facts.program;
    if (this.#live !== null) this.#drawFrom(this.#live);
    // Runs once the servers have begun to start.
    setImmediate(() => this.#look());
  }

  /** Removes the rows while `work` uses the terminal, as a prompt does. */
  async pauseWhile<T>(work: () => Promise<T>): Promise<T> {
    this.#live?.pause();
    try {
      return await work();
    } finally {
      this.#live?.resume();
    }
  }

  /** Prints a line of the log, if the log is shown. */
  write(line: string): void {
    if (this.#live !== null && this.#app !== null) this.#live.print(line);
    else this.#options.err(line);
  }

  /** If the log is not shown: prints entries that the user has to know, and counts other warnings and errors. */
  onLogEntry(entry: LogEntry, scrub: (text: string) => string): void {
    if (!this.#options.quiet) return;
    const { level, event, fields } = entry;
    const text = this.#app === null ? null : this.#messageFor(event, fields);
    if (text !== null) this.#print(`${scrub(text)}\n`);
    else if (event === 'crash' || (level === 'error' && this.#app === null))
      this.#print(`${scrub(formatPretty(entry))}\n`);
    else if (this.#app !== null && fields['server'] === undefined && (level === 'error' || level === 'warn'))
      this.#unshownCounts[level]++;
  }

  #messageFor(event: string, fields: Readonly<Record<string, unknown>>): string | null {
    switch (event) {
      case 'config_refused':
      case 'server_misconfigured':
        return noteText('red', 'Problem', String(fields['problem']));
      case 'config_warning':
        return noteText('yellow', 'Warning', String(fields['problem']));
      case 'config_needs_restart':
        return noteText('yellow', 'Warning', `changed, but in force after a restart only: ${fields['settings']}`);
      case 'config_kept':
        this.#refused = true;
        return `  The file is not in force; the configuration before it still is.`;
      case 'config_applied':
        this.#refused = false;
        return `  reloaded: ${changesText(fields)}`;
      default:
        return null;
    }
  }

  #print(text: string): void {
    this.#printedTexts.push(text);
    if (this.#printedTexts.length > MAX_PRINTED_TEXTS) this.#printedTexts.splice(1, 1);
    if (this.#live !== null && this.#app !== null) this.#live.print(text);
    else this.#options.out(text);
  }

  /** At exit, replaces the rows with "stopped". SIGTSTP leaves them on the screen; SIGCONT draws them again in the foreground. */
  #drawFrom(live: LiveRows): void {
    process.stdout.on('resize', () => this.#draw(live, this.#app!.components.upstreams.statuses()));
    process.once('exit', () => {
      live.draw(['  stopped']);
      live.pause(true);
    });
    process.on('SIGTSTP', () => {
      live.pause(true);
      process.kill(process.pid, 'SIGSTOP');
    });
    process.on('SIGCONT', () => {
      if (inForeground()) live.resume();
    });
  }

  #look(): void {
    const app = this.#app!;
    if (this.#refused && app.facts().configProblem === null) {
      this.#refused = false;
      this.#print('  reloaded: no change\n');
    }
    const statuses = app.components.upstreams.statuses();
    if (this.#live === null) this.#printStatuses(statuses);
    else this.#draw(this.#live, statuses);
    const watches = this.#live !== null || this.#options.quiet || !this.#summaryPrinted;
    const starting = statuses.some((status) => !this.#atRest(status));
    if (watches) setTimeout(() => this.#look(), starting ? STARTING_MS : LATER_MS).unref();
  }

  #atRest(status: ServerStatus): boolean {
    return status.definition.start === 'lazy' || isSettled(status);
  }

  /** Prints a line for each server that has come up or failed, again for each new state and reason, then one for all servers. */
  #printStatuses(statuses: readonly ServerStatus[]): void {
    const width = nameWidth(statuses);
    for (const status of statuses) {
      const is = `${status.state} ${status.reason}`;
      if (
        this.#printedStates.get(status.name) === is ||
        !this.#atRest(status) ||
        (this.#summaryPrinted && !this.#options.quiet)
      )
        continue;
      this.#printedStates.set(status.name, is);
      this.#options.out(`${serverLine(status, width, Date.now())}\n`);
    }
    if (this.#summaryPrinted || !statuses.every(({ name }) => this.#printedStates.has(name))) return;
    this.#summaryPrinted = true;
    this.#options.out(`  Servers  ${serversText(statuses)}\n`);
  }

  #draw(live: LiveRows, statuses: readonly ServerStatus[]): void {
    const { stopping } = this.#app!;
    if (stopping !== null) {
      live.draw([`  ${stopping}; Ctrl-C again ends it now`]);
      return;
    }
    const { columns } = live;
    const notes = this.#notes(statuses);
    const maxRows = Math.max(LEAST_ROWS, live.height - HEADER_LINES);
    const shown = statuses.length <= maxRows ? statuses : attentionFirst(statuses).slice(0, maxRows - 1);
    const width = Math.min(nameWidth(shown), Math.max(8, Math.floor(columns / 3)));
    const rows = shown.map((status) => serverLine(status, width, Date.now(), columns));
    const left = statuses.filter((status) => !shown.includes(status));
    const more = left.length === 0 ? [] : [`    … and ${left.length} more: ${serversText(left)}`];
    live.draw([...rows, ...more, ...notes]);
  }

  #notes(statuses: readonly ServerStatus[]): readonly string[] {
    const { error, warn } = this.#unshownCounts;
    const kept = [...(error === 0 ? [] : [counted(error, 'error')]), ...(warn === 0 ? [] : [counted(warn, 'warning')])];
    return [
      `  Servers  ${serversText(statuses)}`,
      ...(this.#refused ? [`  Problem  the changed file is not in force; ${this.#program} status shows why`] : []),
      ...(kept.length === 0 ? [] : [`  Log      ${kept.join(', ')}: ${this.#program} logs`]),
    ];
  }
}

function nameWidth(statuses: readonly ServerStatus[]): number {
  return Math.max(0, ...statuses.map(({ name }) => name.length));
}

/** Servers that need attention first, then those that are starting; each group in the given order. */
function attentionFirst(statuses: readonly ServerStatus[]): readonly ServerStatus[] {
  const rank = (status: ServerStatus): number => (needsAttention(status) ? 0 : status.state === 'starting' ? 1 : 2);
  return statuses.toSorted((a, b) => rank(a) - rank(b));
}

/** Text such as "+b −c ~d". */
function changesText(fields: Readonly<Record<string, unknown>>): string {
  const names = (field: string, sign: string): string[] =>
    ((fields[field] ?? []) as readonly string[]).map((name) => `${sign}${name}`);
  const servers = [...names('added', '+'), ...names('removed', '−'), ...names('changed', '~')];
  const settings = names('settings', '');
  const said = [...servers, ...(settings.length === 0 ? [] : [`settings ${settings.join(', ')}`])];
  return said.length === 0 ? 'in force' : said.join(' ');
}

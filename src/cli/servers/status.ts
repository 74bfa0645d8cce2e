import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { styleText } from 'node:util';
import { suggest } from '../../config/problem/problem.ts';
import type { DriftSummary } from '../../model/drift.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { accessGateway } from '../access/gateway-access.ts';
import type { CommandInput } from '../command-input.ts';
import { CommandError, EXIT, type ExitCode } from '../exit-code.ts';
import { isReady, serverLine } from '../start-screen.ts';
import { processText, serverPage } from './server-page.ts';

export interface StatusInput extends CommandInput {
  /** A configuration file where there is one of that name, else a server. */
  readonly word: string | undefined;
}

/** `trunkline status [server]`: the servers with state, tools and what needs action, or all that is known of one. */
export async function status(input: StatusInput): Promise<ExitCode> {
  const { terminal, flags, word } = input;
  const isFile = word !== undefined && existsSync(resolve(terminal.cwd, word));
  const gateway = await accessGateway(isFile ? { ...input, file: word } : input);
  try {
    const statuses = await gateway.statuses();
    if (word !== undefined && !isFile) {
      const one = statuses.find(({ name }) => name === word);
      if (one === undefined)
        throw unknownServer(
          word,
          statuses.map(({ name }) => name),
        );
      terminal.out(flags.json === true ? `${JSON.stringify(one)}\n` : serverPage(one, Date.now()));
      return EXIT.ok;
    }
    if (flags.json === true) {
      terminal.out(`${JSON.stringify({ servers: statuses })}\n`);
      return EXIT.ok;
    }
    const width = Math.max(0, ...statuses.map(({ name }) => name.length));
    const { configProblem, desiredProblems, processes } = await gateway.facts();
    const ready = `${statuses.filter(isReady).length} of ${statuses.length} servers ready`;
    terminal.out(`${ready} (${gateway.label}), ${processText(processes)}\n`);
    for (const one of statuses) {
      const running = one.processes == null ? '' : `  ${processText(one.processes)}`;
      terminal.out(`${serverLine(one, width, Date.now())}${running}\n`);
    }
    terminal.out(driftLine(statuses));
    if (configProblem !== null)
      terminal.out(`${styleText('red', 'Problems of the configuration, not in force:')}\n${configProblem}\n`);
    for (const problem of desiredProblems) terminal.out(`  ${styleText('yellow', 'Warning')}  ${problem}\n`);
    return EXIT.ok;
  } finally {
    await gateway.close();
  }
}

/** A running gateway says more of a server than its status. */
function driftLine(statuses: readonly (ServerStatus & { readonly drift?: DriftSummary })[]): string {
  const waiting = statuses.reduce((sum, { drift }) => sum + (drift?.waiting ?? 0), 0);
  if (waiting === 0) return '';
  return `${waiting} ${waiting === 1 ? 'definition is' : 'definitions are'} not as approved: trunkline drift\n`;
}

function unknownServer(word: string, names: readonly string[]): CommandError {
  const close = suggest(word, names);
  const hint = close === null ? '' : `; did you mean "${close}"?`;
  return new CommandError(EXIT.usage, `there is no server "${word}", and no file of that name${hint}`);
}

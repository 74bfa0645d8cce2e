import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { styleText } from 'node:util';
import type { DriftSummary } from '../../model/drift.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { accessGateway, type GatewayAccess } from '../access/gateway-access.ts';
import { type CommandInput, print } from '../command-input.ts';
import { EXIT, type ExitCode, noSuch } from '../exit-code.ts';
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
      const names = statuses.map(({ name }) => name);
      if (one === undefined) throw noSuch(`server "${word}", and no file of that name`, word, names);
      print(input, one, () => serverPage(one, Date.now()));
      return EXIT.ok;
    }
    const json = flags.json === true ? `${JSON.stringify({ servers: statuses })}\n` : null;
    terminal.out(json ?? (await overview(gateway, statuses)));
    return EXIT.ok;
  } finally {
    await gateway.close();
  }
}

async function overview(gateway: GatewayAccess, statuses: readonly ServerStatus[]): Promise<string> {
  const { configProblem, desiredProblems, processes } = await gateway.facts();
  const width = Math.max(0, ...statuses.map(({ name }) => name.length));
  const ready = `${statuses.filter(isReady).length} of ${statuses.length} servers ready`;
  const lines = statuses.map((one) => {
    const running = one.processes == null ? '' : `  ${processText(one.processes)}`;
    return `${serverLine(one, width, Date.now())}${running}\n`;
  });
  const refused = `${styleText('red', 'Problems of the configuration, not in force:')}\n${configProblem}\n`;
  return [
    `${ready} (${gateway.label}), ${processText(processes)}\n`,
    ...lines,
    driftLine(statuses),
    configProblem === null ? '' : refused,
    ...desiredProblems.map((problem) => `  ${styleText('yellow', 'Warning')}  ${problem}\n`),
  ].join('');
}

/** A running gateway says more of a server than its status. */
function driftLine(statuses: readonly (ServerStatus & { readonly drift?: DriftSummary })[]): string {
  const waiting = statuses.reduce((sum, { drift }) => sum + (drift?.waiting ?? 0), 0);
  if (waiting === 0) return '';
  return `${waiting} ${waiting === 1 ? 'definition is' : 'definitions are'} not as approved: trunkline drift\n`;
}

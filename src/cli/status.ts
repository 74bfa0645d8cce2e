import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { suggest } from '../config/suggest.ts';
import type { CommandInput } from './command-input.ts';
import { CommandError, EXIT, type ExitCode } from './exit-code.ts';
import { accessGateway } from './gateway-access.ts';
import { serverPage } from './server-page.ts';
import { isReady, serverLine } from './start-screen.ts';

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
    terminal.out(`${statuses.filter(isReady).length} of ${statuses.length} servers ready (${gateway.label})\n`);
    for (const one of statuses) terminal.out(`${serverLine(one, width, Date.now())}\n`);
    return EXIT.ok;
  } finally {
    await gateway.close();
  }
}

function unknownServer(word: string, names: readonly string[]): CommandError {
  const close = suggest(word, names);
  const hint = close === null ? '' : `; did you mean "${close}"?`;
  return new CommandError(EXIT.usage, `there is no server "${word}", and no file of that name${hint}`);
}

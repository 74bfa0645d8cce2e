import { existsSync, statSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { rememberInputs } from '../config/document/inputs.ts';
import { findConfig } from '../config/files/find-config.ts';
import { dataDirOf } from '../config/files/read-key.ts';
import type { LoadOptions } from '../config/load-config.ts';
import { othersRunning } from './access/find-running.ts';
import type { CommandInput } from './command-input.ts';
import { usage } from './exit-code.ts';
import { passedVariables } from './variables.ts';

/**
 * Where the configuration comes from: a named file, a command line, or the nearest file. With `allowEmpty` the configuration may
 * be empty; otherwise its absence is an error.
 */
export function loadOptions(input: CommandInput, allowEmpty = false, nearest = true): LoadOptions {
  const { file, serverCommand, flags, terminal } = input;
  const { host, port, controlPort, dataDir, logLevel, insecure, nats, strict } = flags;
  const base = {
    cwd: terminal.cwd,
    env: terminal.env,
    strict: strict === true,
    ...(terminal.ask === null ? {} : { inputs: rememberInputs(terminal.ask) }),
    overrides: { host, port, controlPort, dataDir, logLevel, insecure, nats },
  };
  const argvEnv = passedVariables(input);
  if (serverCommand.length > 0) {
    return { ...base, ...(file === undefined ? {} : { files: [file] }), argvCommand: serverCommand, argvEnv };
  }
  const found = file ?? (nearest ? findConfig(terminal.cwd) : null);
  if (found === null && allowEmpty) return base;
  if (found === null) {
    throw usage(
      `no configuration file here or above ${terminal.cwd}\n` +
        '  name one:            trunkline path/to/.mcp.json\n' +
        `  or start one server: trunkline -- npx -y @modelcontextprotocol/server-everything${othersRunning(input)}`.trimEnd(),
    );
  }
  return { ...base, files: [found] };
}

/** Whether the word names a file. A folder does not count: it often has the name of a server. */
export function isFileName(cwd: string, word: string): boolean {
  const path = resolve(cwd, word);
  return existsSync(path) && !statSync(path).isDirectory();
}

/**
 * Options for commands on the data folder, which need no configuration file. Without `nearest`, of the nearest file only its
 * `data.dir` is read.
 */
export async function storedOptions(input: CommandInput, nearest = true): Promise<LoadOptions> {
  const load = loadOptions({ ...input, serverCommand: [], flags: { ...input.flags, env: [] } }, true, nearest);
  const file = nearest || load.files !== undefined ? null : findConfig(load.cwd);
  if (file === null) return load;
  const dataDir = input.flags.dataDir ?? (await dataDirOf(file, load.env)) ?? undefined;
  return { ...load, serves: [file], overrides: { ...load.overrides, dataDir } };
}

export function sourceLabel(options: LoadOptions): string {
  if (options.argvCommand !== undefined) return options.argvCommand.join(' ');
  if ((options.files ?? []).length === 0) return 'none; what was added at run time';
  return (options.files ?? []).map((file) => shortest(options.cwd, file)).join(', ');
}

function shortest(cwd: string, file: string): string {
  const path = relative(cwd, resolve(cwd, file));
  return path === '' || path.startsWith('..') ? resolve(cwd, file) : path;
}

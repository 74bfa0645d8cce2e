import { certificateProblem } from '../app/certificate-problem.ts';
import { processLogger } from '../app/process-logger.ts';
import { type ConfigResult, type LoadOptions, loadConfig } from '../config/load-config.ts';
import { renderProblem } from '../config/problem/problem.ts';
import { bindProblem } from '../http/listener/listen-error.ts';
import { counted } from '../model/counted.ts';
import type { CommandInput } from './command-input.ts';
import { cannotOpen, EXIT, type ExitCode } from './exit-code.ts';
import { loadOptions, sourceLabel } from './sources.ts';

/** `trunkline check`: prints all problems; exit code 0 or 1. Starts nothing. */
export async function check(input: CommandInput): Promise<ExitCode> {
  const { terminal, flags } = input;
  const options = { ...loadOptions(input), strict: true };
  const result = await readOnce(options, input);
  const bind = result.ok ? (bindProblem(result.state) ?? certificateProblem(result.state)) : null;
  const problems = result.ok ? [] : result.problems;
  const good = result.ok && bind === null;
  if (flags.json === true) {
    const servers = result.ok ? [...result.state.servers.keys()] : [];
    terminal.out(`${JSON.stringify({ ok: good, servers, problems, warnings: result.warnings, bind })}\n`);
    return good ? EXIT.ok : EXIT.usage;
  }
  for (const warning of result.warnings) terminal.err(`warning ${renderProblem(warning, terminal.cwd)}\n\n`);
  for (const problem of problems) terminal.err(`${renderProblem(problem, terminal.cwd)}\n\n`);
  if (bind !== null) terminal.err(`${bind}\n`);
  if (good) terminal.out(`${sourceLabel(options)}: ok, ${counted(result.state.servers.size, 'server')}\n`);
  else terminal.err(`${sourceLabel(options)}: ${counted(problems.length + (bind === null ? 0 : 1), 'problem')}\n`);
  return good ? EXIT.ok : EXIT.usage;
}

/** Throws what would refuse a start that reads this. Starts and changes nothing. */
export async function checkStart(load: LoadOptions, input: CommandInput): Promise<void> {
  const { cwd } = input.terminal;
  const result = await readOnce(load, input);
  if (!result.ok) throw cannotOpen({ kind: 'config', problems: result.problems }, cwd);
  const message = bindProblem(result.state) ?? certificateProblem(result.state);
  if (message !== null) throw cannotOpen({ kind: 'bind', message }, cwd);
}

/** Reads the configuration. Loads the modules of the secret store only if the configuration refers to secrets. */
export async function readOnce(load: LoadOptions, { flags, terminal }: CommandInput): Promise<ConfigResult> {
  let refers = false;
  const secrets: LoadOptions['secrets'] = async () => {
    refers = true;
    return new Map();
  };
  const plain = await loadConfig({ ...load, secrets });
  if (!refers) return plain;
  const { readConfig } = await import('../app/open-app.ts');
  const logger = processLogger({ level: 'error', json: flags.json === true, write: terminal.err });
  const result = await readConfig({ state: 'look', load, logger });
  if ('problem' in result) throw cannotOpen(result.problem, terminal.cwd);
  return result;
}

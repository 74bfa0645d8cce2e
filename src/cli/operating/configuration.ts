import { type ConfigProblem, renderProblem } from '../../config/problem/problem.ts';
import type { ConfigurationPlan, ReloadView } from '../../model/configuration.ts';
import { printable } from '../../model/printable.ts';
import { runningClient } from '../access/find-running.ts';
import { type CommandInput, print } from '../command-input.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';

/** `trunkline plan`: the changes that reading the files now would make. */
export async function plan(input: CommandInput): Promise<ExitCode> {
  const found = JSON.parse(await (await runningClient(input)).get('/api/v1/configuration/plan')) as ConfigurationPlan;
  print(input, found, () => planText(found));
  return found.problems.length === 0 ? EXIT.ok : EXIT.usage;
}

/** `trunkline reload`: reads the files now, as SIGHUP does. */
export async function reload(input: CommandInput): Promise<ExitCode> {
  const found = JSON.parse(await (await runningClient(input)).post('/api/v1/configuration/reload', '{}')) as ReloadView;
  print(input, found, () => `${problemsText(found.problems)}${found.result}; version ${found.version} is in force\n`);
  return found.result === 'refused' ? EXIT.usage : EXIT.ok;
}

function planText({ problems, warnings, servers, settings, needRestart }: ConfigurationPlan): string {
  const lines = servers.flatMap(({ server, change, fields }) => [
    `${change} ${server}`,
    ...fields.map(({ field, before, after }) => `  ${field}: ${before ?? 'absent'} -> ${after ?? 'absent'}`),
  ]);
  const when = (name: string): string => (needRestart.includes(name) ? ', in force after a restart only' : '');
  const all = [...lines, ...settings.map((name) => `changed ${name}${when(name)}`)];
  const words = all.length === 0 ? ['nothing would change'] : all;
  return `${problemsText([...problems, ...warnings])}${words.map((line) => `${printable(line)}\n`).join('')}`;
}

function problemsText(problems: ConfigurationPlan['problems']): string {
  return problems.map((problem) => `${renderProblem(problem as ConfigProblem)}\n`).join('');
}

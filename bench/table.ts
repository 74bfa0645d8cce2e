import type { Row } from './run-scenario.ts';
import type { Scenario } from './scenarios.ts';
import type { StartUp } from './start-up.ts';

const HEAD = ['target', 'us/op', 'x nginx', 'op/s', 'x direct', 'p50 ms', 'p99 ms', 'RSS MiB', 'KiB/session', 'client'];

/**
 * The scenario's rows as a Markdown table, with ratios of CPU to nginx and of rate to direct; across the eras also of
 * CPU to the same target's row in one era.
 */
export function scenarioTable(scenario: Scenario, rows: readonly Row[]): string {
  const nginx = rows.find((row) => row.target === 'nginx' && row.problem === '');
  const direct = rows.find((row) => row.target === 'direct' && row.problem === '');
  const crosses = rows.some((row) => row.sameEra);
  const cells = rows.map((row) => {
    const name = row.sameEra ? `${row.target}, same era` : row.target;
    if (row.problem !== '') return [name, `void: ${row.problem.replaceAll(/[|\r\n]+/g, ' ')}`];
    const same = rows.find((other) => other.sameEra && other.target === row.target && other.problem === '');
    return [
      name,
      row.cpuUs === 0 ? '-' : number(row.cpuUs),
      ...(crosses ? [ratio(row.cpuUs, same?.cpuUs)] : []),
      ratio(row.cpuUs, nginx?.cpuUs),
      number(row.perSecond),
      ratio(row.perSecond, direct?.perSecond),
      number(row.p50Ms),
      number(row.p99Ms),
      row.rssMiB === 0 ? '-' : number(row.rssMiB),
      row.kibPerSession === 0 ? '-' : number(row.kibPerSession),
      `${Math.round(row.clientShare * 100)} %`,
    ];
  });
  return `### ${scenario.name}: ${scenario.title}\n\n${markdown(crosses ? HEAD.toSpliced(2, 0, 'x same era') : HEAD, cells)}`;
}

export function startUpTable(starts: readonly StartUp[]): string {
  const head = ['state', 'listening ms', 'said by itself ms', 'CPU ms', 'to whole list ms'];
  const cells = starts.map((start) => [
    start.state,
    ...[start.listeningMs, start.readyMs, start.listeningCpuMs, start.listMs].map(number),
  ]);
  return `### start: 20 stdio servers, from process start to listening, from there to the whole list\n\n${markdown(head, cells)}`;
}

function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map((_, index) => (index === 0 ? '---' : '---:')), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function ratio(value: number, base: number | undefined): string {
  return base === undefined || base === 0 || value === 0 ? '-' : (value / base).toFixed(2);
}

function number(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

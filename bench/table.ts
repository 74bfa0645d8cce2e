import type { FirstCall } from './first-call.ts';
import type { Row } from './row.ts';
import type { Limit, Scenario } from './scenarios.ts';
import type { StartUp } from './start-up.ts';
import { median, quantile } from './statistics.ts';

const HEAD = ['target', 'us/op', 'x nginx', 'op/s', 'x direct', 'p50 ms', 'p99 ms', 'RSS MiB', 'KiB/session', 'client'];

/**
 * The scenario's rows as a Markdown table, with ratios of CPU to nginx and of rate to direct; across the eras also of
 * CPU to the same target's row in one era.
 */
export function scenarioTable(scenario: Scenario, rows: readonly Row[]): string {
  const nginx = rows.find((row) => row.target === 'nginx' && row.problem === '');
  const direct = rows.find((row) => row.target === 'direct' && row.problem === '');
  const beside = rows.some((row) => row.besideUs > 0);
  const held = rows.some((row) => row.heldPerSession > 0);
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
      ...(held ? [row.heldPerSession === 0 ? '-' : number(row.heldPerSession)] : []),
      ...(beside ? [row.besideUs === 0 ? '-' : number(row.besideUs)] : []),
    ];
  });
  const head = [
    ...(crosses ? HEAD.toSpliced(2, 0, 'x same era') : HEAD),
    ...(held ? ['held KiB/session'] : []),
    ...(beside ? ['nats-server us/op'] : []),
  ];
  const verdicts = (scenario.limits ?? []).map((limit) => `- ${verdict(limit, rows)}`);
  const parts = [`### ${scenario.name}: ${scenario.title}`, markdown(head, cells), verdicts.join('\n')];
  return parts.filter((part) => part !== '').join('\n\n');
}

const FIGURES: Readonly<Record<Limit['figure'], string>> = {
  cpuUs: 'CPU per call',
  kibPerSession: 'resident memory per session',
  heldPerSession: 'heap and buffers per session',
};

/**
 * Whether the limit holds, in a sentence: by the median of the ratios of the rounds, or turns. Other load on the machine
 * affects both targets alike within a round, but not from one round to the next.
 */
export function verdict({ of, to, figure, most }: Limit, rows: readonly Row[]): string {
  const measured = (name: string) =>
    rows.find((row) => row.target === name && row.problem === '')?.byRound[figure] ?? [];
  const [values, bases] = [measured(of), measured(to)];
  const what = `${FIGURES[figure]}, ${of} to ${to}`;
  const paired = values.length > 0 && values.length === bases.length;
  if (!paired || [...values, ...bases].some((value) => value <= 0)) return `${what}: not measured`;
  const times = values.map((value, round) => value / bases[round]!);
  const middle = median(times);
  const half = [0.25, 0.75].map((share) => quantile(times, share).toFixed(2)).join(' to ');
  return `${what}: ${middle.toFixed(2)} (half of the ${times.length} rounds ${half}), at most ${most.toFixed(2)}: ${middle <= most ? 'holds' : 'does not hold'}`;
}

export function startUpTable(starts: readonly StartUp[]): string {
  const head = ['state', 'listening ms', 'said by itself ms', 'CPU ms', 'to whole list ms'];
  const cells = starts.map((start) => [
    start.state,
    ...[start.listeningMs, start.readyMs, start.listeningCpuMs, start.listMs].map(number),
  ]);
  return `### start: 20 stdio servers, from process start to listening, from there to the whole list\n\n${markdown(head, cells)}`;
}

export function firstCallTable(calls: readonly FirstCall[]): string {
  const [server] = calls;
  const head = ['command', 'cold ms', 'warm ms', 'fastest warm ms', 'x the server alone, warm'];
  const cells = calls.map(({ way, coldMs, warmMs }) => [
    `\`${way}\``,
    number(median(coldMs)),
    number(median(warmMs)),
    number(Math.min(...warmMs)),
    ratio(median(warmMs), median(server?.warmMs ?? [])),
  ]);
  const title =
    'first-call: from the command to the answer of the first call, with nothing in the cache of npm and once more';
  return `### ${title}\n\n${markdown(head, cells)}`;
}

export function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map((_, index) => (index === 0 ? '---' : '---:')), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function ratio(value: number, base: number | undefined): string {
  return base === undefined || base === 0 || value === 0 ? '-' : (value / base).toFixed(2);
}

export function number(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

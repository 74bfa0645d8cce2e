import { absent, type Entry, entriesOf, fail, firstWarmUp, jobFor, keep } from './entry.ts';
import { Generator, generate } from './generator.ts';
import type { Options } from './options.ts';
import { type Row, rowOf } from './row.ts';
import type { Scenario } from './scenarios.ts';
import type { Scene, Target } from './targets/target.ts';

/** The time of a turn: so short that the load of a shared machine is about the same for all targets of a turn. */
const TURN_MS = 500;
/** The unmeasured beginning of each turn: it fills the caches again, also those of a target with three processes. */
const LEAD_MS = 250;

export type RunOptions = Pick<Options, 'rounds' | 'measureMs' | 'turns'>;

/** Measures all targets in turn, round by round, so that other load on the machine affects all of them alike. */
export async function runScenario(
  scenario: Scenario,
  targets: readonly Target[],
  scene: Scene,
  options: RunOptions,
): Promise<Row[]> {
  const entries = targets
    .filter(({ name, named }) => scenario.only?.includes(name) ?? named !== true)
    .flatMap((target) => entriesOf(scenario, target));
  try {
    if (scenario.inTurns === true) await measureStarts(entries, scenario, scene, options);
    else await measureInRounds(entries, scenario, scene, options);
  } finally {
    await stopAll(entries);
  }
  return entries.map((entry) => rowOf(entry, scenario));
}

async function measureInRounds(
  entries: readonly Entry[],
  scenario: Scenario,
  scene: Scene,
  { rounds, measureMs }: RunOptions,
): Promise<void> {
  // A round before the first is not counted: every target is to be as warm as in a day's work.
  const warmUps = scenario.fresh === true ? 0 : 1;
  for (let round = -warmUps; round < rounds; round++) {
    for (const entry of inTurn(entries, round)) {
      await unlessVoid(entry, scenario, async () => {
        const job = await jobFor(entry, scenario, scene, measureMs);
        const counts = round >= 0;
        keep(entry, scenario, await generate(counts ? job : { ...job, ...firstWarmUp(job) }), counts);
      });
      if (scenario.fresh === true) await stopAll([entry]);
    }
  }
}

/** Measures in turns, once for each start of the targets that the scenario requires. */
async function measureStarts(
  entries: readonly Entry[],
  scenario: Scenario,
  scene: Scene,
  options: RunOptions,
): Promise<void> {
  for (let start = 0; start < (scenario.starts ?? 1); start++) {
    // Each time another target starts first.
    await measureInTurns(inTurn(entries, start * 2), scenario, scene, options);
    if (start + 1 < (scenario.starts ?? 1)) await stopAll(entries);
  }
}

/** Measures each target for the same time, in many short turns; all sessions stay open. */
async function measureInTurns(
  entries: readonly Entry[],
  scenario: Scenario,
  scene: Scene,
  { rounds, measureMs, turns }: RunOptions,
): Promise<void> {
  const most = turns ?? (rounds * measureMs) / TURN_MS;
  const generators = new Map<Entry, Generator>();
  try {
    for (const entry of entries) {
      await unlessVoid(entry, scenario, async () => {
        const job = await jobFor(entry, scenario, scene, TURN_MS);
        const generator = new Generator({ ...job, ...firstWarmUp(job), leadMs: LEAD_MS });
        generators.set(entry, generator);
        keep(entry, scenario, await generator.warmedUp(), false);
      });
    }
    for (let turn = 0; turn < most; turn++) {
      for (const entry of inTurn(entries, turn)) {
        await unlessVoid(entry, scenario, async () => {
          keep(entry, scenario, await generators.get(entry)!.turn(), true);
        });
      }
    }
  } finally {
    for (const generator of generators.values()) await generator.end();
  }
}

/**
 * The first item changes every two rounds, and every second round has the reverse order: neither changes within a round nor
 * the item measured just before favour any target.
 */
function inTurn<Item>(items: readonly Item[], round: number): readonly Item[] {
  const first = (Math.max(round, 0) >> 1) % Math.max(items.length, 1);
  const turned = [...items.slice(first), ...items.slice(0, first)];
  return round % 2 === 1 ? turned.toReversed() : turned;
}

async function stopAll(entries: readonly Entry[]): Promise<void> {
  for (const entry of entries) {
    await entry.running?.stop();
    entry.running = null;
  }
}

async function unlessVoid(entry: Entry, scenario: Scenario, measure: () => Promise<void>): Promise<void> {
  if (entry.problem !== '') return;
  await measure().catch((error) => fail(entry, scenario, absent(error)));
}

import { allPinned, digestOf } from '../../catalog/drift/definition-digest.ts';
import { offeredFor } from '../../catalog/drift/guarded-catalog.ts';
import type { OtherNames } from '../../catalog/drift/other-names.ts';
import { scanDefinition } from '../../catalog/drift/poison-scan.ts';
import { byKind, type Definition, type DriftPolicy, type Finding, type Pins, pinKey } from '../../model/drift.ts';
import type { Capability, ServerCatalog } from '../../model/server-catalog.ts';
import type { TimeSlicer } from '../../model/time-slicer.ts';
import type { DriftReporter } from './drift-reporter.ts';
import { type Guards, offersApprovedOnly } from './guards.ts';
import { kindOf, type OfferedDefinitions } from './offered-definitions.ts';

/** Resources scanned per catalog: they are data, and there may be very many. */
const MAX_RESOURCES = 1_000;
const MAX_FINDINGS = 500;

/** Dependencies of inspections. */
export interface DriftParts {
  readonly pins: Pins;
  readonly guards: Guards;
  readonly offered: OfferedDefinitions;
  readonly reporter: DriftReporter;
  /** Shared by all inspections, so that servers that are listed at once take turns in slices. */
  readonly pace: TimeSlicer;
  readonly now: () => number;
}

/**
 * Inspects a new catalog before any client sees it: pins definitions at first use, reports differences from the pins, and scans
 * all texts. Works in slices, so that a large or hostile list delays its own server only.
 */
export async function inspectCatalog(parts: DriftParts, catalog: ServerCatalog, policy: DriftPolicy): Promise<void> {
  const { pins, guards, offered, reporter, pace } = parts;
  const { server } = catalog;
  const definitions: Definition[] = [];
  for (const { list, item } of allPinned(catalog)) {
    definitions.push({ list, key: item.key, digest: digestOf(item), bytes: item.bytes });
    await pace.step();
  }
  const findings = await scanCatalog(catalog, offered.others(server, catalog), pace);
  const first = catalog.own !== true && pins.isFirstListing(server, kindOf(catalog));
  if (pins.of(server).trustedAt === null && definitions.length > 0) {
    // Under `hold` and `block`, definitions with grave findings are not trusted at first use.
    const strict = offersApprovedOnly(policy);
    const doubted = strict ? doubtedBy(findings) : new Set();
    const lost = pins.isLost(server);
    const trusted = strict && lost ? [] : definitions.filter((one) => !doubted.has(pinKey(one)));
    const when = lost ? 'after its pins were lost' : 'at first use';
    // `trust` waits for the disk, and many servers may be listed for the first time at once.
    await pace.rest();
    await pins.trust(server, trusted, `${trusted.length} of ${definitions.length} definitions ${when}`);
    guards.invalidate();
  } else if (first && policy === 'warn') await trustOwn(parts, catalog, definitions, findings);
  // Computes the offered definitions in slices; look-ups use the results later.
  const guard = guards.of(server);
  for (const { list, item } of allPinned(catalog)) {
    offeredFor(list, item, guard);
    await pace.step();
  }
  offered.listed(catalog, findings);
  await reporter.reportChanges(
    server,
    policy,
    [...offered.definitions(server)],
    (pin) => offered.isGone(server, pin),
    pace,
  );
  await reporter.reportFindings(server, findings);
}

/**
 * A server may offer more to a kind of client that it was never listed for, such as tools that need sampling. Under `warn`,
 * trusts these definitions at the first listing for that kind, except those with grave findings and those that other kinds are
 * offered too.
 */
async function trustOwn(
  { pins, guards, offered }: DriftParts,
  catalog: ServerCatalog,
  definitions: readonly Definition[],
  findings: readonly Finding[],
): Promise<void> {
  const { server } = catalog;
  if (!offered.isListed(server)) return;
  const known = new Set([...offered.definitions(server)].map(pinKey));
  const doubted = doubtedBy(findings);
  const own = definitions.filter((one) => {
    const key = pinKey(one);
    return !known.has(key) && !doubted.has(key) && !pins.of(server).pins.has(key);
  });
  if (own.length === 0) return;
  // If this fails, the definitions wait for approval.
  await pins.approve(server, own, [], byKind(kindOf(catalog))).catch(() => {});
  guards.invalidate();
}

/** Pin keys of definitions with grave findings. */
function doubtedBy(findings: readonly Finding[]): ReadonlySet<string> {
  return new Set(findings.filter(({ grave }) => grave).map(({ list, key }) => `${list} ${key}`));
}

/** All findings in a catalog, resources included. */
export async function scanCatalog(catalog: ServerCatalog, others: OtherNames, pace: TimeSlicer): Promise<Finding[]> {
  const findings: Finding[] = [];
  const scan = (list: Finding['list'], item: Capability) => {
    if (findings.length < MAX_FINDINGS) findings.push(...scanDefinition({ list, key: item.key }, item.bytes, others));
    return pace.step();
  };
  for (const { list, item } of allPinned(catalog)) await scan(list, item);
  for (const item of catalog.lists.resources.items.slice(0, MAX_RESOURCES)) await scan('resources', item);
  return findings;
}

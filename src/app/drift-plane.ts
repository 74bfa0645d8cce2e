import type { Decided, DriftPlane } from '../control/control-plane.ts';
import { OutdatedDecision } from '../gateway/drift/drift.ts';
import type { Gateway } from '../gateway/gateway.ts';
import { PinsContended } from '../registry/pin-book.ts';
import { StoreError } from '../store/run-time-store/run-time-store.ts';

/** Pins and drift of this gateway, for its operator. `refusal`: why nothing can be decided here; null where it can. */
export function driftPlane(gateway: Gateway, refusal: string | null): DriftPlane {
  const drift = () => gateway.drift!;
  const decided = (decide: () => Promise<void>): Promise<Decided> =>
    refusal === null ? done(decide()) : Promise.resolve({ ok: false, code: 'no_shared_store', message: refusal });
  return {
    report: (server) => drift().report(server),
    summary: (server) => drift().summary(server),
    history: (server, options) => drift().history(server, options),
    approve: (server, decisions, by) => decided(() => drift().approve(server, decisions, by)),
    block: (server, names, by) => decided(() => drift().block(server, names, by)),
  };
}

async function done(decision: Promise<void>): Promise<Decided> {
  try {
    await decision;
    return { ok: true };
  } catch (error) {
    if (error instanceof OutdatedDecision) return { ok: false, code: 'outdated', message: error.message };
    if (!(error instanceof StoreError) && !(error instanceof PinsContended)) throw error;
    return { ok: false, code: 'not_stored', message: `nothing was decided: ${error.message}` };
  }
}

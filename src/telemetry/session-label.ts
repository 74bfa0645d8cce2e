import { hash } from 'node:crypto';

const MAX_KEPT = 1_024;
/** Of the sessions that were named last: a label is asked for with each of their calls. */
const kept = new Map<string, string>();

/** What names a session in logs and in the control API. The id itself opens the session, and is shown nowhere. */
export function sessionLabel(sessionId: string): string {
  const known = kept.get(sessionId);
  if (known !== undefined) return known;
  if (kept.size >= MAX_KEPT) kept.clear();
  const label = hash('sha256', sessionId).slice(0, 12);
  kept.set(sessionId, label);
  return label;
}

import { hash } from 'node:crypto';

const MAX_KEPT = 1_024;
/** Labels of recent sessions: each of their calls needs the label. */
const kept = new Map<string, string>();

/** Identifies a session in logs and in the control API. The id itself grants access to the session and is never shown. */
export function sessionLabel(sessionId: string): string {
  const known = kept.get(sessionId);
  if (known !== undefined) return known;
  if (kept.size >= MAX_KEPT) kept.clear();
  const label = hash('sha256', sessionId).slice(0, 12);
  kept.set(sessionId, label);
  return label;
}

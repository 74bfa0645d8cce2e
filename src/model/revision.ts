import type { Era } from './message.ts';

/** The dated revisions of the specification, oldest first. */
export const REVISIONS = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const;

export type Revision = (typeof REVISIONS)[number];

/** The newest revision of each era: what we offer when the peer leaves the choice to us. */
export const LATEST_STATEFUL = '2025-11-25' satisfies Revision;
export const LATEST_STATELESS = '2026-07-28' satisfies Revision;

/** The revision that the client of seed S4 advertised. A name for its programs; we negotiate (S4.1). */
export const PROTOCOL_VERSION = '2025-06-18' satisfies Revision;

export const STATEFUL_REVISIONS: readonly Revision[] = REVISIONS.slice(0, 4);
export const STATELESS_REVISIONS: readonly Revision[] = REVISIONS.slice(4);

export function isRevision(text: string): text is Revision {
  return (REVISIONS as readonly string[]).includes(text);
}

export function eraOf(revision: Revision): Era {
  return revision === LATEST_STATELESS ? 'stateless' : 'stateful';
}

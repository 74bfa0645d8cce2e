/** The revisions of the matrix, oldest first; each is a client and, over HTTP and stdio, a server. */
export const REVISIONS = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const;
export type MatrixRevision = (typeof REVISIONS)[number];

export const WIRES = ['http', 'stdio'] as const;
export type Wire = (typeof WIRES)[number];

export function isStateless(revision: MatrixRevision): boolean {
  return revision === '2026-07-28';
}

/** What a client of the revision can be asked, as it declares it. */
export function capabilitiesOf(revision: MatrixRevision): Readonly<Record<string, object>> {
  const oldest = { sampling: {}, roots: {} };
  if (revision < '2025-06-18') return oldest;
  if (revision === '2025-06-18') return { ...oldest, elicitation: {} };
  return { ...oldest, elicitation: { form: {}, url: {} } };
}

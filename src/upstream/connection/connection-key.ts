/** Which pooled connection: of which server, and under which label of a session key (never the key itself). */
export interface ConnectionKey {
  readonly server: string;
  readonly session: string;
}

/**
 * The key as text, `server/session` (S1.2). A slash within a part, and the percent sign that stands for one, are
 * encoded, so that two keys are never one text.
 */
export function connectionKeyText({ server, session }: ConnectionKey): string {
  return `${encoded(server)}/${encoded(session)}`;
}

function encoded(part: string): string {
  return part.replaceAll('%', '%25').replaceAll('/', '%2F');
}

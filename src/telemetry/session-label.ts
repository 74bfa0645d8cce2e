import { hash } from 'node:crypto';

/** What names a session in logs and in the control API. The id itself opens the session, and is shown nowhere. */
export function sessionLabel(sessionId: string): string {
  return hash('sha256', sessionId).slice(0, 12);
}

import { existsSync } from 'node:fs';

/** Whether this process runs in a container: its localhost, files and programs are then not those of the machine. */
export function insideContainer(environment: Readonly<Record<string, string | undefined>>): boolean {
  if (environment['KUBERNETES_SERVICE_HOST'] !== undefined) return true;
  return existsSync('/.dockerenv') || existsSync('/run/.containerenv');
}

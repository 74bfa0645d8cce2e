/** A program that runs another one. */
export interface KnownLauncher {
  /** What has to be installed for it; absent: it is part of the system. */
  readonly comesWith?: string;
  /** It fetches what it runs unless that is in its cache: always, or with one of these words before its name. */
  readonly fetches?: true | readonly string[];
}

const LAUNCHERS: Readonly<Record<string, KnownLauncher>> = {
  npx: { comesWith: 'Node.js', fetches: true },
  npm: { comesWith: 'Node.js', fetches: ['exec', 'x'] },
  node: { comesWith: 'Node.js' },
  uvx: { comesWith: 'uv', fetches: true },
  uv: { comesWith: 'uv', fetches: ['run', 'tool'] },
  pipx: { comesWith: 'pipx', fetches: true },
  python: { comesWith: 'Python' },
  python3: { comesWith: 'Python' },
  bunx: { comesWith: 'Bun', fetches: true },
  bun: { comesWith: 'Bun', fetches: ['x'] },
  deno: { comesWith: 'Deno' },
  pnpx: { comesWith: 'pnpm', fetches: true },
  pnpm: { comesWith: 'pnpm', fetches: ['dlx'] },
  yarn: { comesWith: 'Yarn', fetches: ['dlx'] },
  docker: { comesWith: 'Docker', fetches: ['run'] },
  podman: { comesWith: 'Podman', fetches: ['run'] },
  sh: {},
  bash: {},
};

/** By its name, with or without its folder and the ending that it has on Windows; null for any other program. */
export function launcherOf(command: string): KnownLauncher | null {
  const name = /[^/\\]*$/.exec(command)![0].replace(/\.(?:cmd|exe)$/, '');
  return Object.hasOwn(LAUNCHERS, name) ? LAUNCHERS[name]! : null;
}

import type { Behind, Running, Scene, Target } from './target.ts';

/** The server itself, without a gateway, to compare rates and times with. It has no processes that count. */
export const direct: Target = {
  name: 'direct',
  maxSessions: Number.POSITIVE_INFINITY,
  canServe: (behind) => behind !== 'stdio',
  start: (scene, behind): Promise<Running> =>
    Promise.resolve({
      url: serverUrl(scene, behind),
      toolPrefix: '',
      pids: () => [],
      stop: () => Promise.resolve(),
    }),
};

/** The URL of the server behind a target that does not merge servers. */
export function serverUrl(scene: Scene, behind: Behind): string {
  if (behind === 'fleet') return scene.wholeListUrl;
  return behind === 'stateless' ? scene.statelessUrl : scene.statefulUrl;
}

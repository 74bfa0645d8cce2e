/** Plants a defect: on SIGUSR2 the process that loaded this file throws an error that no code catches. */
process.on('SIGUSR2', () => {
  const defect = new Error('planted defect');
  if (process.env['FAILPOINT'] === 'rejection') void Promise.reject(defect);
  else {
    setImmediate(() => {
      throw defect;
    });
  }
});

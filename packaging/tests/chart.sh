# shellcheck shell=bash
# The Helm chart: rendered in each of its forms by Helm's own library, and checked against the schemas of Kubernetes.

chart_python() { PYTHONPATH=$tools/helm-python-sdk-0.2.2:$tools/kubernetes-validate-1.37.0 python3 "$@"; }

chart_renders() { chart_python packaging/tests/chart.py packaging/helm/seawall "$program" "$work" docs/recipes/kubernetes.md; }

chart_has_the_version_of_the_program() {
  has_line "appVersion: \"$("$program" --version | cut -d' ' -f2)\"" <packaging/helm/seawall/Chart.yaml
}

say "chart"
pip_tool helm-python-sdk 0.2.2
pip_tool kubernetes-validate 1.37.0
if [[ -d $tools/helm-python-sdk-0.2.2 && -d $tools/kubernetes-validate-1.37.0 ]]; then
  check "each form renders, fits the schemas of Kubernetes, and has narrow rights and one writer" chart_renders
  check "the chart has the version of the program" chart_has_the_version_of_the_program
else
  skip "the chart" "PyPI's helm-python-sdk or kubernetes-validate can't be had"
fi
